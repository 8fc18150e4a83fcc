"""The overlap of the documents that student and teacher find in an index."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from swiftlet.evaluation.experiment import match_judgements, run_queries
from swiftlet.evaluation.metrics import evaluate
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.retrieval.corpora.collections import read_qrels, read_queries
from swiftlet.retrieval.directory import DOCUMENTS_FILE, PASSAGE_TO_DOCUMENT_FILE
from swiftlet.retrieval.documents import DocumentStore
from swiftlet.retrieval.encoder import Encoder
from swiftlet.retrieval.engines import open_index
from swiftlet.retrieval.engines.faiss_index import FaissIndex
from swiftlet.retrieval.index import VectorIndex
from swiftlet.retrieval.manifest import Manifest, load_manifest
from swiftlet.retrieval.searcher import Searcher
from swiftlet.retrieval.types import Query, Run
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

    def __init__(self, directory: Path) -> None:
        """Open the index in `directory` and verify its files.

        :raises ManifestError: When `directory` is not an index.
        :raises CorruptArtefactError: When a file was altered.
        """
        self.manifest = load_manifest(directory, "index")
        self.index = open_index(directory, self.manifest.details)
        self._directory = directory
        self._owners = np.load(directory / PASSAGE_TO_DOCUMENT_FILE, allow_pickle=False)

    def measure(
        self,
        teacher: Encoder,
        student: Encoder,
        queries: Sequence[str],
        judged: tuple[Path, Path] | None,
        progress: TrainingProgress,
    ) -> list[Overlap]:
        """Compare on `queries`, by exact search over the stored embeddings, then by the index.

        :param judged: The paths of queries and qrels.
        :raises CollectionError: When the judgements are bad, or name an unknown query or document.
        :raises InvalidArgumentError: When the index cannot reconstruct embeddings.
        """
        named = [Query(str(number), text) for number, text in enumerate(queries)]
        store = DocumentStore(self._directory / DOCUMENTS_FILE)
        found = []
        ways: Mapping[str, VectorIndex] = {
            "exact": self._exact(progress),
            "as served": self.index,
        }
        for way, index in ways.items():
            teacher_retriever, student_retriever = (
                SearcherRetriever(self.searcher(encoder, index, store), mode="dense")
                for encoder in (teacher, student)
            )
            progress.begin(f"Teacher and student, {way}", 2 * len(named))
            runs = []
            for retriever in (teacher_retriever, student_retriever):
                runs.append(run_queries(retriever, named, top_k=_DEEP, threads=1))
                progress.advance(len(named))
            ndcg: dict[str, float] = {}
            if judged is not None:
                queries_path, qrels_path = judged
                judgements = match_judgements(
                    read_queries(queries_path),
                    read_qrels(qrels_path),
                    teacher_retriever,
                    qrels_path=qrels_path,
                )
                for name, retriever in (
                    ("teacher", teacher_retriever),
                    ("student", student_retriever),
                ):
                    run = run_queries(retriever, judgements.queries, top_k=_NEAREST, threads=1)
                    ndcg[f"{name}_ndcg"] = evaluate(run, judgements.qrels, [NDCG])[NDCG]
            found.append(Overlap(way, len(named), *_shares(*runs), **ndcg))
        store.close()
        return found

    def searcher(self, encoder: Encoder, index: VectorIndex, store: DocumentStore) -> Searcher:
        """Search an index of the same passages with an encoder of the same embedding space."""
        manifest = Manifest("encoder", encoder.dim, encoder.embedding_space, {}, "")
        return Searcher(
            encoder=encoder,
            index=index,
            passage_to_document=self._owners,
            store=store,
            index_manifest=self.manifest,
            encoder_manifest=manifest,
        )

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
