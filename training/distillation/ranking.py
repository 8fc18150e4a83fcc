"""The losses of distillation, and the passages of an index that the ranking loss compares."""

from collections.abc import Container, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch.nn import functional

from swiftlet.encoders.reranker import Reranker
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.vectors.vector_index import SearchedWords, VectorIndex
from training.distillation.settings import Distance, Distillation, RankingLoss
from training.objective.negatives.sampler import Rows

Target = tuple[Rows, list[float]]
"""The rows of passages, ascending, and the logits of their texts for a query."""


def distance(student: torch.Tensor, teacher: torch.Tensor, kind: Distance) -> torch.Tensor:
    """The mean distance between outputs (n, width), a scalar.

    "euclidean" is the squared Euclidean distance divided by the width (004, sections 2.2 and 3.3);
    "cosine" is one minus the cosine, which ignores lengths.
    """
    if kind == "cosine":
        return 1 - functional.cosine_similarity(student, teacher, dim=-1).mean()
    return functional.mse_loss(student, teacher)


def ranking_loss(
    student: torch.Tensor,
    teacher: torch.Tensor,
    documents: torch.Tensor,
    score_factor: float,
    kind: RankingLoss = "kl",
) -> torch.Tensor:
    """How the student's scores of `documents` (m, width) differ from the teacher's, a scalar.

    All rows have length 1, and `score_factor` multiplies all scores.
    """
    wanted, found = (score_factor * each @ documents.T for each in (teacher, student))
    return divergence(found, wanted, kind)


def divergence(found: torch.Tensor, wanted: torch.Tensor, kind: RankingLoss) -> torch.Tensor:
    """How the scores (n, m) of m documents for n texts differ from the wanted ones, a scalar.

    "kl" is the mean KL divergence of their softmaxes. This is the contrastive loss of DAFT (001,
    equation 5) with the wanted softmax in place of one relevant document, minus the constant
    entropy of that softmax. "margin_mse" is the mean squared difference of their margins between
    any two documents (Hofstätter et al., "Improving Efficient Neural Ranking Models with
    Cross-Architecture Knowledge Distillation", 2020, section 3): half of it, since it is then the
    variance of the differences.
    """
    if kind == "margin_mse":
        return (found - wanted).var(-1).mean()
    wanted, found = (functional.log_softmax(each, dim=-1) for each in (wanted, found))
    return functional.kl_div(found, wanted, reduction="batchmean", log_target=True)


class Neighbours:
    """Searches the best passages of the teacher and of BM25 for a batch of queries."""

    def __init__(self, index: VectorIndex, words: SearchedWords | None, per_query: int) -> None:
        """Search the best `per_query` passages of each index for each query."""
        self._index = index
        self._words = words
        self._per_query = per_query

    def rows(self, texts: Sequence[str], teacher: torch.Tensor) -> Rows:
        """The rows (m,) of all passages found for n queries.

        :param teacher: The teacher's embeddings (n, dim) of the `texts`.
        """
        found = [self._index.search(embedding, self._per_query)[1] for embedding in teacher.numpy()]
        if self._words is not None:
            found += [self._words.parse(text).search(self._per_query)[1] for text in texts]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def embeddings(self, rows: Rows) -> torch.Tensor:
        """Embeddings (n, dim), as stored, of the n different passages in `rows`.

        :raises InvalidArgumentError: When the index cannot reconstruct embeddings.
        """
        return torch.from_numpy(self._index.embeddings(np.unique(rows)))


class RerankedTargets:
    """Scores the best passages of queries, each query once."""

    def __init__(
        self,
        reranker: Reranker,
        neighbours: Neighbours,
        store: DocumentStore,
        queries: Container[str],
        settings: Distillation,
    ) -> None:
        """:param queries: The texts that have targets."""
        self._reranker, self._neighbours, self._store = reranker, neighbours, store
        self._queries, self._settings = queries, settings
        self._known: dict[str, Target] = {}

    def of(self, texts: Sequence[str], teacher: torch.Tensor) -> list[Target | None]:
        """The target of each of n texts.

        :param teacher: The teacher's embeddings (n, dim), which passages are searched with.
        """
        for text, embedding in zip(texts, teacher, strict=True):
            if text in self._queries and text not in self._known:
                rows = self._neighbours.rows([text], embedding[None])
                self._known[text] = rows, self._logits(text, rows)
        return [self._known.get(text) for text in texts]

    def loss(self, student: torch.Tensor, targets: Sequence[Target | None]) -> torch.Tensor:
        """The mean ranking loss over n texts, a scalar; texts without a target have none.

        :param student: Embeddings (n, dim) of length 1.
        """
        losses = [student.new_zeros(())]
        for embedding, target in zip(student, targets, strict=True):
            if target is not None:
                rows, logits = target
                passages = self._neighbours.embeddings(rows).to(student.device)
                found = self._settings.score_factor * embedding[None] @ passages.T
                wanted = torch.tensor([logits], device=student.device)
                losses.append(divergence(found, wanted, self._settings.ranking_loss))
        return torch.stack(losses).sum() / len(targets)

    def _logits(self, query: str, rows: Rows) -> list[float]:
        found = self._store.passages(rows.tolist(), include_text=True)
        texts = [encoder_text(title, passage.text) for passage, title, _ in found]
        with ThreadPoolExecutor(torch.get_num_threads()) as executor:
            return list(executor.map(lambda text: self._reranker.logit(query, text), texts))
