"""Queries that are not trained on, and the passages among which they are searched."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexing.progress import Progress
from retrieval.tokenizer import Tokenizer
from retrieval.types import Qrels
from training.data import FEWEST_PAIRS, TrainingData, read_sources
from training.errors import TrainingDataError
from training.judgements import Judgements
from training.passages import Passages
from training.sources import DataSource


@dataclass(frozen=True, eq=False)
class ValidationSet:
    """Judged queries, and the ascending `rows` (r,) of `passages` that are searched for them.

    All passages of relevant documents are among these. The ids in `qrels` are
    `passages.document_ids`, and each query has a relevant document.
    """

    passages: Passages
    query_ids: list[str]
    queries: list[str]
    qrels: Qrels
    rows: NDArray[np.int64]


def hold_out(
    data: TrainingData, num_queries: int, seed: int, *, max_passages: int | None = None
) -> tuple[TrainingData, ValidationSet]:
    """Take queries away from the training data, chosen by `seed`, to validate with.

    All queries of the same words leave the training data, whatever their ids and case. The
    documents stay where they are and may serve as negatives.

    :param max_passages: As in `validation_from`.
    :raises TrainingDataError: When there are too few queries, or too few pairs are left.
    """
    words = np.array([" ".join(query.casefold().split()) for query in data.queries], dtype=object)
    first, same = _distinct(words)
    if not 0 < num_queries < len(first):
        raise TrainingDataError(
            f"{num_queries} queries cannot be held out: 1 to {len(first) - 1} of the "
            f"{len(first)} different ones that have a relevant document can"
        )
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(first))[:num_queries]
    kept = ~np.isin(same, chosen)
    left = int(kept[data.pairs[:, 0]].sum())
    if left < FEWEST_PAIRS:
        raise TrainingDataError(
            f"{num_queries} queries cannot be held out: of {len(data.pairs)} pairs {left} would be "
            f"left to train on, and at least {FEWEST_PAIRS} are needed"
        )
    held_out = _validation_set(
        data.passages,
        data.query_ids,
        data.queries,
        data.judgements,
        np.sort(first[chosen]),
        max_passages,
        random,
    )
    return data.keep_queries(kept), held_out


def validation_from(
    sources: Sequence[DataSource],
    directory: Path,
    *,
    tokenizer: Tokenizer,
    passage_tokens: int,
    overlap_tokens: int,
    truncate: bool = False,
    num_queries: int | None = None,
    max_passages: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ValidationSet:
    """The judged queries of `sources`, to be searched among the passages of their corpora.

    :param num_queries: At most so many queries, chosen by `seed`; None takes all.
    :param max_passages: Beside those of relevant documents, take others by `seed` up to so many
        passages in all; None takes all.
    :raises RetrievalError: As `read_training_data`, but for the number of pairs.
    """
    passages, judged = read_sources(
        sources,
        directory,
        tokenizer=tokenizer,
        passage_tokens=passage_tokens,
        overlap_tokens=overlap_tokens,
        truncate=truncate,
        progress=progress,
    )
    random = np.random.default_rng(seed)
    chosen = np.sort(random.permutation(len(judged.queries))[:num_queries])
    return _validation_set(
        passages,
        judged.query_ids,
        judged.queries,
        judged.judgements,
        chosen,
        max_passages,
        random,
    )


def _validation_set(
    passages: Passages,
    query_ids: list[str],
    queries: list[str],
    judgements: Judgements,
    chosen: NDArray[np.int64],
    max_passages: int | None,
    random: np.random.Generator,
) -> ValidationSet:
    judgements = judgements[np.isin(judgements[:, 0], chosen)]
    qrels: Qrels = {query_ids[query]: {} for query in chosen.tolist()}
    for query, document, grade in judgements.tolist():
        qrels[query_ids[query]][passages.document_ids[document]] = grade
    relevant = np.unique(judgements[judgements[:, 2] > 0, 1])
    return ValidationSet(
        passages,
        list(qrels),
        [queries[query] for query in chosen.tolist()],
        qrels,
        _searched_rows(passages, passages.rows_of(relevant), max_passages, random),
    )


def _searched_rows(
    passages: Passages,
    relevant: NDArray[np.int64],
    max_passages: int | None,
    random: np.random.Generator,
) -> NDArray[np.int64]:
    if max_passages is None or max_passages >= passages.num_passages:
        return np.arange(passages.num_passages)
    searched = np.zeros(passages.num_passages, bool)
    searched[relevant] = True
    others = np.flatnonzero(~searched)
    searched[random.choice(others, max(0, max_passages - len(relevant)), replace=False)] = True
    return np.flatnonzero(searched)


def _distinct(words: NDArray[np.object_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The place of the first of each distinct text, and for each text the number of its own."""
    _, first, same = np.unique(words, return_index=True, return_inverse=True)
    return first, same.reshape(-1)
