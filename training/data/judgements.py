"""Reads queries, qrels and triples, and replaces ids by numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.collections import read_queries
from swiftlet.corpora.trec import check_qrels, read_qrels
from swiftlet.errors import CollectionError, shown
from training.data.identifiers import Identifiers
from training.data.passages import corpus_prefix
from training.data.sources import DataSource, resolved
from training.data.triples import Triples, read_triples
from training.errors import TrainingDataError

JudgedPairs = NDArray[np.int64]
"""Numbers of a query and a document, and the grade, (judgements, 3): each pair once."""


@dataclass(frozen=True, slots=True)
class JudgedQueries:
    """The queries that have a relevant document.

    `triples` (n, 3) are the training examples: the numbers of a query, a relevant document and a
    negative document, which is -1 if none is given. `notes` are sentences about skipped queries.
    """

    query_ids: list[str]
    queries: list[str]
    judgements: JudgedPairs
    triples: Triples
    notes: tuple[str, ...]


def read_judgements(sources: Sequence[DataSource], documents: Identifiers) -> JudgedQueries:
    """Read the queries, qrels and triples of all `sources`.

    A grade of at least `DataSource.relevant_from` makes a document relevant; a lower one counts as
    0. If sources disagree on a grade, the higher one is used. If there are several files of
    queries, query ids get the prefixes "0:", "1:", ….

    :param documents: The ids of a store that has the corpora of `sources` in their order.
    :raises CollectionError: When a file is bad, or names a query or a relevant document that does
        not exist.
    :raises TrainingDataError: When nothing is relevant to any query.
    """
    reader = _Reader(sources, documents)
    for source in sources:
        reader.read(source)
    if not reader.triples:
        raise TrainingDataError(f"no document is relevant to any query: {'; '.join(reader.notes)}")
    return JudgedQueries(
        reader.query_ids,
        reader.queries,
        highest_grades(np.concatenate(reader.judgements)),
        np.concatenate(reader.triples),
        tuple(reader.notes),
    )


class _Reader:
    def __init__(self, sources: Sequence[DataSource], documents: Identifiers) -> None:
        self.documents = documents
        self.query_ids: list[str] = []
        self.queries: list[str] = []
        self.judgements: list[JudgedPairs] = []
        self.triples: list[Triples] = []
        self.notes: list[str] = []
        self._numbers: dict[str, int] = {}
        self._texts: dict[Path, dict[str, str]] = {}
        self._query_prefixes = _prefixes(source.queries_path for source in sources)
        self._document_prefixes = _prefixes(source.documents_path for source in sources)

    def read(self, source: DataSource) -> None:
        path = resolved(source.queries_path)
        if path not in self._texts:
            queries = read_queries(source.queries_path)
            self._texts[path] = {query.query_id: query.text for query in queries}
        qrels = source.qrels_path()
        if qrels is not None:
            self._add_qrels(source, self._texts[path], qrels)
        if source.triples is not None:
            self._add_triples(source, self._texts[path], Path(source.triples))

    def _add_qrels(self, source: DataSource, texts: Mapping[str, str], path: Path) -> None:
        qrels = {
            query_id: {
                document_id: 0 if 0 < grade < source.relevant_from else grade
                for document_id, grade in grades.items()
            }
            for query_id, grades in read_qrels(path).items()
        }
        check_qrels(path, qrels, texts, lambda _: True)
        judged = [
            (query_id, document_id, grade)
            for query_id, grades in qrels.items()
            if any(grade > 0 for grade in grades.values())
            for document_id, grade in grades.items()
        ]
        if without := len(texts) - len({query_id for query_id, *_ in judged}):
            self.notes.append(
                f"{without:,} of the {len(texts):,} queries of {source.queries_path} have no "
                f"relevant document in {path}"
            )
        if not judged:
            return
        prefix = self._document_prefixes[resolved(source.documents_path)]
        numbers = self.documents.numbers([prefix + document_id for _, document_id, _ in judged])
        grades = np.array([grade for *_, grade in judged])
        if len(missing := np.flatnonzero((numbers < 0) & (grades > 0))):
            query_id, document_id, _ = judged[missing[0]]
            more = f", nor are {len(missing) - 1:,} more" if len(missing) > 1 else ""
            raise CollectionError(
                path,
                f"the document {shown(document_id)}, relevant to the query {shown(query_id)}, "
                f"is not in the corpus {source.corpus}{more}: remove these lines, or add the "
                "documents",
            )
        of_query = self._query_prefixes[resolved(source.queries_path)]
        queries = [self._query(of_query + query_id, texts[query_id]) for query_id, *_ in judged]
        judgements = np.column_stack((queries, numbers, grades))[numbers >= 0]
        self.judgements.append(judgements)
        if source.triples is None:
            triples = judgements[judgements[:, 2] > 0].astype(np.int32)
            triples[:, 2] = -1
            self.triples.append(triples)

    def _add_triples(self, source: DataSource, texts: Mapping[str, str], path: Path) -> None:
        of_query = self._query_prefixes[resolved(source.queries_path)]

        def query_number(query_id: str) -> int | None:
            text = texts.get(query_id)
            return None if text is None else self._query(of_query + query_id, text)

        prefix = self._document_prefixes[resolved(source.documents_path)]
        triples = read_triples(path, query_number, self.documents, prefix)
        # Many triples have the same pair.
        pairs = np.unique(triples[:, 0].astype(np.int64) * len(self.documents) + triples[:, 1])
        queries, documents = np.divmod(pairs, len(self.documents))
        self.judgements.append(np.column_stack((queries, documents, np.ones_like(pairs))))
        self.triples.append(triples)

    def _query(self, query_id: str, text: str) -> int:
        """The number of a query; a new query gets the next number."""
        number = self._numbers.setdefault(query_id, len(self.queries))
        if number == len(self.queries):
            self.query_ids.append(query_id)
            self.queries.append(text)
        return number


def _prefixes(paths: Iterable[Path]) -> dict[Path, str]:
    distinct = dict.fromkeys(map(resolved, paths))
    return {path: corpus_prefix(number, len(distinct)) for number, path in enumerate(distinct)}


def highest_grades(judgements: JudgedPairs) -> JudgedPairs:
    """Each pair once, with its highest grade, sorted by pair."""
    query, document, grade = judgements.T
    ordered = judgements[np.lexsort((grade, document, query))]
    last = np.ones(len(ordered), bool)
    last[:-1] = (ordered[1:, :2] != ordered[:-1, :2]).any(axis=1)
    return ordered[last]
