"""The contrastive term for texts with relevant documents, over the passages of an index."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from swiftlet.index.vectors.vector_index import VectorIndex
from training.contrastive.false_negatives import may_be_relevant
from training.distillation.overlap import IndexComparison
from training.distillation.settings import Distillation, Judged
from training.distillation.texts import normalised

MOST_PASSAGES = 200_000


@dataclass(frozen=True, slots=True)
class Relevant:
    """The rows of all passages of the relevant documents of a text, and the weight of its term."""

    rows: NDArray[np.int64]
    weight: float


def relevant_passages(
    sources: Iterable[Judged], comparison: IndexComparison
) -> Mapping[str, Relevant]:
    """The relevant passages of each query of `sources`, by its text as a `TextSource` has it.

    A query that occurs again counts once, with the judgements of all and the highest weight.

    :raises CollectionError: When a file is bad, or names an unknown query or document.
    """
    documents: dict[str, set[str]] = defaultdict(set)
    weights: dict[str, float] = {}
    for source in sources:
        judgements = comparison.judgements(source)
        for query in judgements.queries:
            text = normalised(query.text)
            grades = judgements.qrels[query.query_id]
            relevant = {each for each, grade in grades.items() if grade > 0}
            if text and relevant:
                documents[text] |= relevant
                weights[text] = max(weights.get(text, 0.0), source.weight)
    return {
        text: Relevant(comparison.rows_of(ids), weights[text]) for text, ids in documents.items()
    }


class RelevanceTerm:
    """Learns from relevant documents: their passages against the other passages of an index.

    It is the contrastive loss of DAFT (001, equation 5) with all passages of the index as
    negatives, as they are stored, and with all passages of the relevant documents as positives: the
    numerator is the sum over them, since one relevant passage makes a document relevant.
    """

    def __init__(
        self,
        relevant: Mapping[str, Relevant],
        passages: torch.Tensor,
        rows: NDArray[np.int64],
        settings: Distillation,
    ) -> None:
        """
        :param relevant: By text; other texts have no term.
        :param passages: The embeddings (m, dim) of the `rows` (m,) of the index, ascending.
        """
        self._relevant = {
            text: (torch.from_numpy(np.searchsorted(rows, each.rows)), each.weight)
            for text, each in relevant.items()
        }
        self._passages = passages
        self._factor, self._share = settings.judged_score_factor, settings.teacher_share

    @classmethod
    def of_index(
        cls,
        relevant: Mapping[str, Relevant],
        index: VectorIndex,
        teacher: torch.Tensor,
        settings: Distillation,
        most: int = MOST_PASSAGES,
    ) -> Self:
        """The term with all passages of an index, or with at most about `most`.

        Of a larger index it has the passages of relevant documents and, for each text, the nearest
        to the teacher's embedding.

        :param teacher: The teacher's embeddings (n, dim) of the n texts in `relevant`.
        :raises InvalidArgumentError: When the index cannot reconstruct embeddings.
        """
        rows = np.arange(index.size)
        if index.size > most:
            kept = np.unique(np.concatenate([each.rows for each in relevant.values()]))
            per_text = max(1, (most - len(kept)) // len(relevant))
            unit = functional.normalize(teacher, dim=-1).numpy()
            nearest = [index.search(each, per_text)[1] for each in unit]
            rows = np.unique(np.concatenate([kept, *nearest]))
        return cls(relevant, torch.from_numpy(index.embeddings(rows)), rows, settings)

    def loss(
        self, texts: Sequence[str], student: torch.Tensor, teacher: torch.Tensor
    ) -> torch.Tensor:
        """The weighted mean of −log of the probability of relevant passages, a scalar.

        :param student: Embeddings (n, dim) of `texts`, of length 1 like the `teacher`'s embeddings.
        """
        found = [(line, *self._relevant[t]) for line, t in enumerate(texts) if t in self._relevant]
        if not found:
            return student.new_zeros(())
        lines, rows, weights = zip(*found, strict=True)
        chosen = torch.tensor(lines)
        passages = self._passages.to(student.device)
        scores = student[chosen] @ passages.T
        is_relevant = torch.zeros_like(scores, dtype=torch.bool)
        for line, columns in enumerate(rows):
            is_relevant[line, columns] = True
        with torch.no_grad():
            expected = teacher[chosen].to(student.device) @ passages.T
            best = expected.masked_fill(~is_relevant, -torch.inf).amax(1, keepdim=True)
            mean = expected.mean(1, keepdim=True)
            counts = is_relevant | ~may_be_relevant(expected, best, mean, self._share)
        logits = (self._factor * scores).masked_fill(~counts, -torch.inf)
        losses = logits.logsumexp(1) - logits.masked_fill(~is_relevant, -torch.inf).logsumexp(1)
        return losses @ torch.tensor(weights, device=student.device) / len(texts)
