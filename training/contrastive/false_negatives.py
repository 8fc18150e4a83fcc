"""Passages that may be relevant without a judgement, by the scores of the untrained model."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch.nn.functional import normalize

from swiftlet.progress import Progress
from training.contrastive.batch_encoder import BatchEncoder
from training.data.passages import PassageTexts
from training.errors import TrainingDataError
from training.loop.embedding_cache import EmbeddingCache
from training.objective.contrastive import paired_scores, scores
from training.objective.negatives.sampler import Rows
from training.tables import Table

_BLOCK, _SAMPLED = 4096, 512


class TeacherShare(Table):
    """A passage is no negative if the untrained document model finds it as relevant.

    It is then scored above `teacher_share` of the way from any passage's score to the positive's.
    """

    teacher_share: Annotated[float, Field(gt=0, le=1)] | None = None


def may_be_relevant(
    scores: torch.Tensor, positive: torch.Tensor, mean: torch.Tensor, share: float
) -> torch.Tensor:
    """Whether each of `scores` (n, m) is above a share of the way from `mean` to `positive` (n, 1).

    The scores of some models are all near 1, so a share of the score alone would say nothing.

    :param mean: The mean score of any passages.
    """
    return scores > mean + share * (positive - mean)


class FalseNegatives:
    """Finds passages that the teacher scores nearly as high as a query's positive.

    The teacher is the document model before its training, for queries and for passages (Moreira et
    al. 2024, "NV-Retriever", section 3.2: TopK-PercPos, here above the mean of 512 passages).
    """

    def __init__(
        self,
        share: float,
        queries: Sequence[str],
        passages: PassageTexts,
        encoder: BatchEncoder,
        cache: EmbeddingCache,
        progress: Progress,
    ) -> None:
        """Encode all queries, and all passages that are not in the cache yet.

        :param encoder: With the untrained document model; later changes of it do not matter.
        """
        self._share, self._passages, self._encoder, self._cache = share, passages, encoder, cache
        progress.begin("Teacher", len(queries) + passages.num_passages)
        self._width = encoder.dual_encoder.document_tower.width
        self._queries = normalize(encoder.as_queries(queries), dim=-1)
        progress.advance(len(queries))
        for start in range(0, passages.num_passages, _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, passages.num_passages))
            self._outputs(rows)
            progress.advance(len(rows))
        count = passages.num_passages
        self._some = self._outputs(np.arange(0, count, max(1, count // _SAMPLED)))

    def removed(
        self, negatives: torch.Tensor, queries: NDArray[np.int64], positives: Rows, rows: Rows
    ) -> torch.Tensor:
        """The `negatives` (n, m) that cannot be relevant.

        :param queries: Query numbers, (n,).
        :param positives: The row of each query's positive, (n,).
        :param rows: Passage rows, (m,).
        :raises TrainingDataError: When there are none.
        """
        embeddings = self._queries[torch.from_numpy(queries).to(self._queries.device)]
        expected = paired_scores(embeddings, self._outputs(positives)).unsqueeze(1)
        found, mean = (scores(embeddings, each) for each in (self._outputs(rows), self._some))
        mean = mean.mean(1, keepdim=True)
        left = negatives & ~may_be_relevant(found, expected, mean, self._share)
        if not left.any():
            raise TrainingDataError(
                "negatives.teacher_share leaves no negative of any query in a batch: raise it or "
                "leave it out"
            )
        return left

    def _outputs(self, rows: Rows) -> torch.Tensor:
        outputs = self._encoder.frozen_outputs(self._cache, self._passages, rows)
        return normalize(outputs.reshape(len(rows), -1, self._width), dim=-1).flatten(1)
