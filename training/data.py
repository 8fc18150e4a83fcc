"""Training data: passages on disk, queries, and which of them belong together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexing.progress import Progress, Silence
from retrieval.passages import PassageSplitter
from training.errors import TrainingDataError
from training.judgements import JudgedQueries, Judgements, read_judgements
from training.passages import Passages, store_passages
from training.positive_passages import PositivePassage, choose_passages
from training.positives import KnownPositives
from training.same_words import same_words
from training.sources import DataSource, distinct_corpora

FEWEST_PAIRS = 2
"""A batch of one pair has nothing to tell it from."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What a contrastive loss is trained on.

    `pairs` (p, 2) are numbers of a query and the row of a passage that is relevant to it, one for
    each relevant document or each triple; `given_negatives` (p,) are the rows of the triples'
    negatives, -1 where there is none, or None without triples. `known` has all passages of all
    documents that are relevant to a query or to one of the same words, `judgements` (j, 3) numbers
    of a query and a document, and the grade. Each query has a relevant document. `notes` are
    sentences for the user to read.
    """

    passages: Passages
    query_ids: list[str]
    queries: list[str]
    pairs: NDArray[np.int64]
    given_negatives: NDArray[np.int64] | None
    judgements: Judgements
    known: KnownPositives
    notes: tuple[str, ...] = ()

    def keep_queries(self, kept: NDArray[np.bool_]) -> "TrainingData":
        """The data of some queries alone, numbered anew, with all passages.

        :param kept: Whether each query stays, (queries,).
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
            known=known_positives(self.passages, judgements, same_words(queries)),
        )


def read_training_data(
    sources: Sequence[DataSource],
    directory: Path,
    splitter: PassageSplitter,
    *,
    positive: PositivePassage = "lexical",
    progress: Progress | None = None,
) -> TrainingData:
    """Read all `sources`; documents are cut by `splitter` and stored in `directory`.

    Documents are never in memory together: MS MARCO's 8.8 million passages take about 0.5 GB
    there, and each pair 16 bytes, 24 with a given negative. A store that was made earlier of the
    same files is used again; queries, qrels and triples are read anew.

    :param positive: Which passage of a relevant document is paired with the query.
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
    same = same_words(judged.queries)
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
    """The stored passages of `sources` and their judgements, for training or for validation.

    :raises RetrievalError: As `read_training_data`, but for the number of pairs.
    """
    if not sources:
        raise TrainingDataError("there are no sources of training data")
    corpora = list(distinct_corpora(sources).values())
    passages = store_passages(corpora, directory, splitter, progress or Silence())
    return passages, read_judgements(sources, passages.document_ids)


def known_positives(
    passages: Passages, judgements: Judgements, same: NDArray[np.int64]
) -> KnownPositives:
    """All passages of all documents that are relevant to a query or to one of the same words.

    :param same: What `same_words` says of the queries.
    """
    queries, documents, _ = judgements[judgements[:, 2] > 0].T
    counts = np.diff(passages.first_rows)[documents]
    return KnownPositives.of_groups(
        np.repeat(same[queries], counts), passages.rows_of(documents), same
    )


def check_pairs(count: int) -> None:
    """Refuse data that cannot be trained on.

    :raises TrainingDataError: When there are fewer than two pairs.
    """
    if count < FEWEST_PAIRS:
        raise TrainingDataError(
            f"the training set has {count} pair{'' if count == 1 else 's'} of a query and a "
            f"relevant passage: at least {FEWEST_PAIRS} are needed, each to tell from the other"
        )


def _are_relevant(
    judgements: Judgements,
    same: NDArray[np.int64],
    queries: NDArray[np.int64],
    documents: NDArray[np.int64],
) -> NDArray[np.bool_]:
    relevant = judgements[judgements[:, 2] > 0]
    width = int(documents.max(initial=relevant[:, 1].max())) + 1
    keys = same[relevant[:, 0]] * width + relevant[:, 1]
    return np.isin(same[queries] * width + documents, keys)
