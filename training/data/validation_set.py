"""The validation set: held-out queries, and the passages that are searched for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.progress import Progress
from swiftlet.types import Qrels
from training.data.judgements import JudgedQueries, highest_grades
from training.data.passages import Passages
from training.data.query_groups import normalised_query, query_groups
from training.data.sources import DataSource
from training.data.training_data import FEWEST_PAIRS, TrainingData, read_sources
from training.errors import TrainingDataError

FEWEST_QUERIES = 8
"""With fewer points, an effective rank is meaningless."""

_LARGEST_SHARE = 5


@dataclass(frozen=True, eq=False)
class ValidationSet:
    """Judged queries, and the ascending `rows` (r,) of `passages` that are searched for them.

    `rows` include all passages of relevant documents. The document ids in `qrels` are the ids of
    `passages.document_ids`. Each query has a relevant document.
    """

    passages: Passages
    query_ids: list[str]
    queries: list[str]
    qrels: Qrels
    rows: NDArray[np.int64]


def hold_out(
    data: TrainingData, num_queries: int, seed: int, *, max_passages: int | None = None
) -> tuple[TrainingData, ValidationSet]:
    """Move queries, chosen by `seed`, from the training data to a validation set.

    At most a fifth of all are moved, unless that is less than `FEWEST_QUERIES`. All queries with
    the same words are removed from the training data. The validation set has the first of them,
    with the judgements of all. Their documents stay in the training data and can be drawn as
    negatives.

    :param max_passages: As in `validation_from`.
    :raises TrainingDataError: When there are too few queries, or too few pairs are left.
    """
    same = query_groups(data.queries)
    # Sorted by their words, so that the choice does not depend on the order of the files.
    first = sorted(
        np.unique(same).tolist(), key=lambda number: normalised_query(data.queries[number])
    )
    if len(first) <= FEWEST_QUERIES:
        raise TrainingDataError(
            f"the number of different queries with a relevant document is {len(first)}: more than "
            f"{FEWEST_QUERIES} are needed, since {FEWEST_QUERIES} are held out; add judged "
            "queries, or name sources in validation.data"
        )
    num_queries = min(num_queries, max(FEWEST_QUERIES, len(first) // _LARGEST_SHARE))
    random = np.random.default_rng(seed)
    chosen = np.sort(random.permutation(first)[:num_queries])
    kept = ~np.isin(same, chosen)
    left = int(kept[data.pairs[:, 0]].sum())
    if left < FEWEST_PAIRS:
        raise TrainingDataError(
            f"{num_queries} validation queries are held out, and of {len(data.pairs)} pairs that "
            f"leaves {left} to train on: at least {FEWEST_PAIRS} are needed; add judged queries"
        )
    held_out = _validation_set(data.passages, data, same, chosen, max_passages, random)
    return data.keep_queries(kept), held_out


def validation_from(
    sources: Sequence[DataSource],
    directory: Path,
    splitter: PassageSplitter,
    *,
    num_queries: int | None = None,
    max_passages: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ValidationSet:
    """The judged queries of `sources` and the passages of their corpora.

    Queries with the same words count once, with the id of the first and the judgements of all.

    :param num_queries: The greatest number of queries, chosen by `seed`; None takes all.
    :param max_passages: The greatest number of passages; None takes all. Passages of relevant
        documents are always taken, and `seed` chooses the other passages.
    :raises RetrievalError: As `read_training_data`, except that any number of pairs is accepted.
    """
    passages, judged = read_sources(sources, directory, splitter, progress)
    same = query_groups(judged.queries)
    random = np.random.default_rng(seed)
    chosen = np.sort(random.permutation(np.unique(same))[:num_queries])
    return _validation_set(passages, judged, same, chosen, max_passages, random)


def _validation_set(
    passages: Passages,
    judged: TrainingData | JudgedQueries,
    same: NDArray[np.int64],
    chosen: NDArray[np.int64],
    max_passages: int | None,
    random: np.random.Generator,
) -> ValidationSet:
    judgements = judged.judgements.copy()
    judgements[:, 0] = same[judgements[:, 0]]
    judgements = highest_grades(judgements[np.isin(judgements[:, 0], chosen)])
    qrels: Qrels = {judged.query_ids[query]: {} for query in chosen.tolist()}
    for query, document, grade in judgements.tolist():
        qrels[judged.query_ids[query]][passages.document_ids[document]] = grade
    relevant = np.unique(judgements[judgements[:, 2] > 0, 1])
    return ValidationSet(
        passages,
        list(qrels),
        [judged.queries[query] for query in chosen.tolist()],
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
