"""Training data: queries, passages on disk, and pairs of a query and a relevant passage."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.progress import Progress, Silence
from training.data.judgements import JudgedPairs, JudgedQueries, read_judgements
from training.data.passages import Passages, store_passages
from training.data.positive_passages import PositivePassage, choose_passages
from training.data.positives import KnownPositives
from training.data.query_groups import query_groups
from training.data.sources import DataSource, distinct_corpora
from training.errors import TrainingDataError

FEWEST_PAIRS = 2
"""A batch of one pair has no in-batch negatives."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Queries, passages and judgements for contrastive training.

    `pairs` (p, 2) are the number of a query and the row of a relevant passage, one pair for each
    relevant document or each triple. `given_negatives` (p,) are the rows of the negatives in the
    triples, -1 if there is none; without triples it is None. `judgements` (j, 3) are the numbers of
    a query and a document, and the grade. `known` has all passages of all documents that are
    relevant to a query or to a query with the same words. Each query has a relevant document.
    `notes` are sentences for the user.
    """

    passages: Passages
    query_ids: list[str]
    queries: list[str]
    pairs: NDArray[np.int64]
    given_negatives: NDArray[np.int64] | None
    judgements: JudgedPairs
    known: KnownPositives
    notes: tuple[str, ...] = ()

    def keep_queries(self, kept: NDArray[np.bool_]) -> "TrainingData":
        """The data of some of the queries, with new query numbers and all passages.

        :param kept: Whether each query is kept, (queries,).
        :raises TrainingDataError: When too few pairs are left.
        """
        numbers = np.cumsum(kept) - 1
        of_pairs, of_judgements = kept[self.pairs[:, 0]], kept[self.judgements[:, 0]]
        pairs, judgements = self.pairs[of_pairs], self.judgements[of_judgements]
        pairs[:, 0] = numbers[pairs[:, 0]]
        judgements[:, 0] = numbers[judgements[:, 0]]
        check_pairs(len(pairs))
        negatives = self.given_negatives
        chosen = np.flatnonzero(kept).tolist()
        queries = [self.queries[number] for number in chosen]
        return replace(
            self,
            query_ids=[self.query_ids[number] for number in chosen],
            queries=queries,
            pairs=pairs,
            given_negatives=None if negatives is None else negatives[of_pairs],
            judgements=judgements,
            known=known_positives(self.passages, judgements, query_groups(queries)),
        )


def read_training_data(
    sources: Sequence[DataSource],
    directory: Path,
    splitter: PassageSplitter,
    *,
    positive: PositivePassage = "lexical",
    progress: Progress | None = None,
) -> TrainingData:
    """Read all `sources`. Documents are split by `splitter` and stored in `directory`.

    Texts of documents stay on disk: MS MARCO's 8.8 million passages take about 0.5 GB of memory,
    and a pair takes 16 bytes, or 24 with a given negative. A store made earlier from the same files
    is reused. Queries, qrels and triples are read again.

    :param positive: How the passage of a relevant document is chosen.
    :raises CollectionError: When a file is bad, or names a query or a document that is not there.
    :raises TrainingDataError: When there are fewer than two pairs, or a store is damaged.
    :raises ArtefactError: When another process is writing the same store.
    :raises StorageError: When the file system refuses.
    """
    passages, judged = read_sources(sources, directory, splitter, progress)
    check_pairs(len(judged.triples))
    queries, positives, negatives = judged.triples.T.astype(np.int64)
    pairs = np.column_stack((queries, positives))
    pairs[:, 1] = choose_passages(passages, judged.queries, pairs, positive)
    notes = list(judged.notes)
    same = query_groups(judged.queries)
    given: NDArray[np.int64] | None = None
    if (negatives >= 0).any():
        usable = negatives >= 0
        relevant = usable & _are_relevant(judged.judgements, same, queries, negatives)
        if relevant.any():
            notes.append(
                f"{relevant.sum():,} given negatives are relevant to their query and not used"
            )
        usable &= ~relevant
        given = np.full(len(pairs), -1)
        chosen = np.column_stack((queries[usable], negatives[usable]))
        given[usable] = choose_passages(passages, judged.queries, chosen, positive)
    return TrainingData(
        passages,
        judged.query_ids,
        judged.queries,
        pairs,
        given,
        judged.judgements,
        known_positives(passages, judged.judgements, same),
        tuple(notes),
    )


def read_sources(
    sources: Sequence[DataSource],
    directory: Path,
    splitter: PassageSplitter,
    progress: Progress | None = None,
) -> tuple[Passages, JudgedQueries]:
    """The stored passages of `sources` and their judgements, for training or validation.

    :raises RetrievalError: As `read_training_data`, except that any number of pairs is accepted.
    """
    if not sources:
        raise TrainingDataError("there are no sources of training data")
    corpora = list(distinct_corpora(sources).values())
    passages = store_passages(corpora, directory, splitter, progress or Silence())
    return passages, read_judgements(sources, passages.document_ids)


def known_positives(
    passages: Passages, judgements: JudgedPairs, same: NDArray[np.int64]
) -> KnownPositives:
    """All passages of all documents that are relevant to a query or to one with the same words.

    :param same: The `query_groups` of the queries.
    """
    queries, documents, _ = judgements[judgements[:, 2] > 0].T
    counts = np.diff(passages.first_rows)[documents]
    return KnownPositives.of_groups(
        np.repeat(same[queries], counts), passages.rows_of(documents), same
    )


def check_pairs(count: int) -> None:
    """Refuse data with too few pairs.

    :raises TrainingDataError: When there are fewer than two pairs.
    """
    if count < FEWEST_PAIRS:
        raise TrainingDataError(
            f"the training set has {count} pair{'' if count == 1 else 's'} of a query and a "
            f"relevant passage: at least {FEWEST_PAIRS} are needed; add judged queries"
        )


def _are_relevant(
    judgements: JudgedPairs,
    same: NDArray[np.int64],
    queries: NDArray[np.int64],
    documents: NDArray[np.int64],
) -> NDArray[np.bool_]:
    relevant = judgements[judgements[:, 2] > 0]
    width = int(documents.max(initial=relevant[:, 1].max())) + 1
    keys = same[relevant[:, 0]] * width + relevant[:, 1]
    return np.isin(same[queries] * width + documents, keys)
