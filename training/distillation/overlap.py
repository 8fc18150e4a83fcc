"""The overlap of the documents that student and teacher find in an index."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.collections import read_queries
from swiftlet.corpora.trec import read_qrels
from swiftlet.encoders.encoder import Encoder
from swiftlet.evaluation.experiment import JudgedSet, match_judgements, run_queries
from swiftlet.evaluation.metrics import evaluate
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.index.directory import IndexDirectory
from swiftlet.index.documents.numbers import first_rows
from swiftlet.index.parts.search_parts import FixedIndex
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.vector_index import VectorIndex
from swiftlet.manifest import Manifest
from swiftlet.search.searcher import Searcher
from swiftlet.types import Query, Run
from training.distillation.ranking import Neighbours
from training.distillation.settings import Judged
from training.loop.log import TrainingProgress

NDCG = "nDCG@10"
_BLOCK = 65_536
_NEAREST, _DEEP = 10, 100


@dataclass(frozen=True, slots=True)
class Overlap:
    """The overlap of two encoders in the same search, as means over queries.

    `overlap_10` is the share of the teacher's 10 best documents among the student's 10 best, and
    `recall_100` their share among the student's 100 best. With judgements, `teacher_ndcg` and
    `student_ndcg` are the nDCG@10 of both.
    """

    searched: str
    num_queries: int
    overlap_10: float
    recall_100: float
    teacher_ndcg: float | None = None
    student_ndcg: float | None = None

    def as_details(self) -> dict[str, Any]:
        """For a manifest."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class IndexComparison:
    """Compares encoders on an index, by exact search and by the index's search."""

    def __init__(self, directory: Path, encoder: Encoder) -> None:
        """Open the index in `directory`, which `encoder` can search, and verify its files.

        :raises ManifestError: When `directory` is not an index.
        :raises CorruptArtefactError: When a file was altered.
        """
        with closing(IndexDirectory(directory, encoder)) as opened:
            self.manifest, self._base = opened.manifest, opened.base
        self.index, self.store = self._base.index, self._base.store

    def measure(
        self,
        teacher: Encoder,
        student: Encoder,
        queries: Sequence[str],
        judged: Judged | None,
        progress: TrainingProgress,
    ) -> list[Overlap]:
        """Compare on `queries`, by exact search over the stored embeddings, then by the index.

        :raises CollectionError: When the judgements are bad, or name an unknown query or document.
        :raises InvalidArgumentError: When the index cannot reconstruct embeddings.
        """
        named = [Query(str(number), text) for number, text in enumerate(queries)]
        judgements = None if judged is None else self.judgements(judged)
        found = []
        ways: Mapping[str, VectorIndex] = {
            "exact": self._exact(progress),
            "as served": self.index,
        }
        for way, index in ways.items():
            retrievers = {
                name: self.retriever(encoder, index)
                for name, encoder in (("teacher", teacher), ("student", student))
            }
            progress.begin(f"Teacher and student, {way}", 2 * len(named))
            runs = []
            for retriever in retrievers.values():
                runs.append(run_queries(retriever, named, top_k=_DEEP, threads=1))
                progress.advance(len(named))
            measured = {}
            if judgements is not None:
                measured = {f"{name}_ndcg": ndcg(r, judgements) for name, r in retrievers.items()}
            found.append(Overlap(way, len(named), *_shares(*runs), **measured))
        return found

    def neighbours(self, per_query: int) -> Neighbours:
        """The best passages of a query by meaning, and by words if the index has them."""
        return Neighbours(self.index, self._base.lexical, per_query)

    def judgements(self, judged: Judged) -> JudgedSet:
        """Read judged queries, and check that the index has their documents.

        :raises CollectionError: When a file is bad, or names an unknown query or document.
        """
        qrels = Path(judged.qrels)
        return match_judgements(
            read_queries(Path(judged.queries)),
            read_qrels(qrels),
            lambda document_id: self.store.number_of(document_id) is not None,
            qrels_path=qrels,
            threads=1,
        )

    def rows_of(self, documents: Iterable[str]) -> NDArray[np.int64]:
        """The rows of all passages of documents of the index, ascending."""
        found = [self.store.number_of(document_id) for document_id in documents]
        places = np.array([place for place in found if place is not None])
        spans = zip(self._first_rows[places], self._first_rows[places + 1], strict=True)
        return np.sort(np.concatenate([np.arange(*span) for span in spans]))

    @cached_property
    def _first_rows(self) -> NDArray[np.int64]:
        """The first row of each document in the order of the corpus, and the number of rows."""
        first = first_rows(self._base.passage_to_document)
        return np.append(first, self.index.size)

    def retriever(self, encoder: Encoder, index: VectorIndex | None = None) -> SearcherRetriever:
        """Dense searches of the index, or of another one of the same passages.

        :param encoder: It has the embedding space of the index.
        """
        manifest = Manifest("encoder", encoder.dim, encoder.embedding_space, {}, "")
        parts = replace(self._base, encoder=encoder, index=index or self.index)
        return SearcherRetriever(Searcher(FixedIndex(parts, self.manifest), manifest), mode="dense")

    def _exact(self, progress: TrainingProgress) -> FaissIndex:
        """An exact index over the stored embeddings, in memory."""
        size = self.index.size
        exact = FaissIndex.create("Flat", self.index.dim)
        progress.begin("Embeddings of the index", size)
        for start in range(0, size, _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, size), dtype=np.int64)
            exact.add(self.index.embeddings(rows))
            progress.advance(len(rows))
        return exact


def ndcg(retriever: SearcherRetriever, judgements: JudgedSet) -> float:
    """The nDCG@10 of a retriever."""
    run = run_queries(retriever, judgements.queries, top_k=_NEAREST, threads=1)
    return evaluate(run, judgements.qrels, [NDCG])[NDCG]


def _shares(teacher: Run, student: Run) -> tuple[float, float]:
    """The share of the teacher's 10 best documents in the student's 10 and 100 best."""
    shares = []
    for depth in (_NEAREST, _DEEP):
        each = []
        for query_id, scores in teacher.items():
            nearest = list(scores)[:_NEAREST]
            reached = set(list(student[query_id])[:depth])
            each.append(len(reached.intersection(nearest)) / len(nearest))
        shares.append(fmean(each))
    return shares[0], shares[1]
