"""The texts that the shipped query encoders learn from, and the collections that judge them.

Nothing of scifact and covid-qa is learnt from, and no query of the tests of the others.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from minilm_weights import weights

from export.encoder_directory import export_encoder
from indexing.build import BuildSettings, build_index
from retrieval.collections import read_documents, read_qrels, read_queries
from retrieval.types import Query
from swiftlet.terminal import StageBars

WEB_QUERIES = "web-queries"
LEARNT = [("squad-dev-v1.1", "train"), ("medquad", "all"), ("boolq", "dev"), ("qmsum", "train")]
CORPORA = ["wiki-passages-2wiki", "medquad", "boolq", "squad-dev-v1.1", "qmsum"]
NUM_DEVELOPMENT = 400


@dataclass(frozen=True, slots=True)
class Collection:
    """Judged queries of one collection, searched among all of its documents."""

    name: str
    split: str


# Settings are chosen by these, of which the first two lose their queries to them.
DEVELOPMENT = [
    Collection("squad-dev-v1.1", "train"),
    Collection("boolq", "dev"),
    Collection("qmsum", "val"),
]
TESTS = [
    Collection("scifact", "test"),
    Collection("squad-dev-v1.1", "test"),
    Collection("boolq", "test_disjoint"),
    Collection("covid-qa", "all"),
    Collection("qmsum", "test"),
]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is made of the data once: training queries, indexes by the teacher, judged queries."""

    data: Path
    folder: Path

    @property
    def training_queries(self) -> Path:
        """Queries of collections that may be learnt from, without those of the development."""
        return self.folder / "training-queries.jsonl"

    @property
    def web_queries(self) -> Path:
        """Queries that people typed."""
        return self.data / WEB_QUERIES / "queries.jsonl"

    @property
    def corpora(self) -> list[Path]:
        """Where sentences are taken from."""
        return [self.data / name for name in CORPORA]

    def index(self, name: str) -> Path:
        """The exact index of a collection's documents, by the teacher in fp32."""
        return self.folder / "indexes" / name

    def judged(self, collection: Collection, *, development: bool) -> tuple[list[Query], Path]:
        """The queries that are asked, and where their qrels are."""
        qrels = self.data / collection.name / "qrels" / f"{collection.split}.tsv"
        known = read_qrels(qrels)
        queries = [q for q in read_queries(self.data / collection.name) if q.query_id in known]
        return (_evenly(queries) if development else queries), qrels


def prepare(data: Path, folder: Path) -> Prepared:
    """Make what is missing in `folder`; takes some ten minutes the first time."""
    folder.mkdir(parents=True, exist_ok=True)
    prepared = Prepared(data, folder)
    if not prepared.training_queries.is_file():
        _write_training_queries(prepared)
    encoder = folder / "teacher"
    if not encoder.is_dir():
        export_encoder(
            weights(), encoder, name="all-MiniLM-L6-v2", max_tokens=256, precisions=["fp32"]
        )
    for name in sorted({collection.name for collection in (*TESTS, *DEVELOPMENT)}):
        if not prepared.index(name).is_dir():
            with StageBars() as progress:
                build_index(
                    read_documents(data / name),
                    encoder,
                    prepared.index(name),
                    BuildSettings(factory="Flat"),
                    progress=progress,
                )
    return prepared


def _write_training_queries(prepared: Prepared) -> None:
    asked = {text.casefold() for text in _asked_elsewhere(prepared)}
    lines: list[str] = []
    for name, split in LEARNT:
        known = read_qrels(prepared.data / name / "qrels" / f"{split}.tsv")
        lines += [
            query.text
            for query in read_queries(prepared.data / name)
            if query.query_id in known and query.text.strip().casefold() not in asked
        ]
    partial = prepared.training_queries.with_suffix(".partial")
    records = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in lines)
    partial.write_text("".join(records), "utf-8")
    partial.rename(prepared.training_queries)


def _asked_elsewhere(prepared: Prepared) -> Iterator[str]:
    """Every query that measures, in development or in a test."""
    for collections, development in ((DEVELOPMENT, True), (TESTS, False)):
        for collection in collections:
            queries, _ = prepared.judged(collection, development=development)
            yield from (query.text.strip() for query in queries)
    # Of scifact and covid-qa nothing at all.
    for name in ("scifact", "covid-qa"):
        yield from (query.text.strip() for query in read_queries(prepared.data / name))


def _evenly(queries: list[Query]) -> list[Query]:
    step = max(1, len(queries) // NUM_DEVELOPMENT)
    return queries[::step][:NUM_DEVELOPMENT]
