"""The scores of a cross-encoder as targets of the ranking loss."""

from collections.abc import Container, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from swiftlet.encoders.reranker import Reranker
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.documents.store import DocumentStore
from training.distillation.loss import divergence
from training.distillation.neighbours import Neighbours
from training.distillation.settings import Distillation
from training.objective.negatives.sampler import Rows

Target = tuple[Rows, list[float]]
"""The rows of passages, ascending, and the logits of their texts for a query."""


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
