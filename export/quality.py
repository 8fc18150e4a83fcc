"""Measures the loss of retrieval quality by int8 on a collection."""

from dataclasses import dataclass
from pathlib import Path

from swiftlet.corpora.collections import read_documents, read_queries
from swiftlet.corpora.trec import check_qrels, qrels_path, read_qrels
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.evaluation.exact import exact_run
from swiftlet.evaluation.metrics import evaluate
from swiftlet.types import Document, Qrels, Query

METRIC = "nDCG@10"
_TOP_K = 10


@dataclass(frozen=True, slots=True)
class Collection:
    """A corpus, the judged queries and the judgements."""

    name: str
    split: str
    documents: list[Document]
    queries: list[Query]
    qrels: Qrels

    @classmethod
    def read(cls, folder: Path, split: str) -> "Collection":
        """Read a BEIR folder with the qrels of `split`.

        :raises CollectionError: When a file is bad, or the qrels name unknown ids.
        """
        documents = list(read_documents(folder))
        path = qrels_path(folder, split)
        qrels = {query_id: grades for query_id, grades in read_qrels(path).items() if grades}
        queries = [query for query in read_queries(folder) if query.query_id in qrels]
        document_ids = {document.document_id for document in documents}
        check_qrels(path, qrels, {query.query_id for query in queries}, document_ids.__contains__)
        return cls(folder.resolve().name, split, documents, queries, qrels)


@dataclass(frozen=True, slots=True)
class QualityChange:
    """nDCG@10 on a collection in fp32 and in int8, both to four decimals."""

    collection: str
    split: str
    fp32: float
    quantised: float

    @property
    def change(self) -> float:
        """The difference between int8 and fp32; a loss is negative."""
        return round(self.quantised - self.fp32, 4)


def exact_quality(encoder: OnnxEncoder, collection: Collection) -> float:
    """nDCG@10 of exact search with `encoder` for queries and documents, to four decimals."""
    encoders = encoder.reading("query"), encoder.reading("passage")
    run = exact_run(*encoders, collection.documents, collection.queries, _TOP_K)
    return round(evaluate(run, collection.qrels, [METRIC])[METRIC], 4)
