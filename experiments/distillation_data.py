"""The texts that the shipped query encoders learn from, and the collections that judge them.

Nothing of scifact and covid-qa is learnt from, and no query of the tests of the others.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from export.encoder_directory import export_encoder
from indexing.build import BuildSettings, build_index
from models import torch_weights
from retrieval.collections import read_documents, read_qrels, read_queries
from retrieval.types import Query
from swiftlet.terminal import StageBars

WEB_QUERIES = "web-queries"
LEARNT = [("squad-dev-v1.1", "train"), ("medquad", "all"), ("boolq", "dev"), ("qmsum", "train")]
# Not qmsum, whose transcribed speech is unlike what is searched for.
CORPORA = ["wiki-passages-2wiki", "medquad", "boolq", "squad-dev-v1.1"]
WORDNET = "wordnet"
WORDNET_FOLDER = Path("/usr/share/wordnet")
PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
NUM_DEVELOPMENT = 400


# Where an adjective may stand: galore(ip).
_MARKER = re.compile(r"\(\w+\)$")


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
        return [*(self.data / name for name in CORPORA), self.folder / WORDNET]

    def index(self, name: str) -> Path:
        """The exact index of a collection's documents, by the teacher in fp32."""
        return self.folder / "indexes" / name

    def judged(self, collection: Collection, *, development: bool) -> tuple[list[Query], Path]:
        """The queries that are asked, and where their qrels are."""
        qrels = self.data / collection.name / "qrels" / f"{collection.split}.tsv"
        known = read_qrels(qrels)
        queries = [q for q in read_queries(self.data / collection.name) if q.query_id in known]
        return (_evenly(queries) if development else queries), qrels


def prepare(data: Path, wordnet: Path, folder: Path) -> Prepared:
    """Make what is missing in `folder`; takes half an hour the first time.

    :param wordnet: Where WordNet's `data.noun` and so on are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    prepared = Prepared(data, folder)
    if not (folder / WORDNET).is_dir():
        _write_wordnet(wordnet, folder / WORDNET)
    if not prepared.training_queries.is_file():
        _write_training_queries(prepared)
    encoder = folder / "teacher"
    if not encoder.is_dir():
        export_encoder(
            torch_weights(), encoder, name="all-MiniLM-L6-v2", max_tokens=256, precisions=["fp32"]
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


def _write_wordnet(source: Path, out: Path) -> None:
    """WordNet as a corpus: its synonyms as titles, with their gloss as text."""
    if not (source / "data.noun").is_file():
        raise SystemExit(f"{source} has no WordNet: Debian's package wordnet-base has it")
    partial = out.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    with (partial / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for part in PARTS_OF_SPEECH:
            for line in (source / f"data.{part}").read_text("utf-8").splitlines():
                # The licence stands first, indented.
                if not line.startswith("  "):
                    file.write(json.dumps(_synonyms(part, line), ensure_ascii=False) + "\n")
    partial.rename(out)


def _synonyms(part: str, line: str) -> dict[str, str]:
    """A line of WordNet's data files: offset, file, part, count in hex, (lemma, sense)… | gloss."""
    head, _, gloss = line.partition(" | ")
    offset, _, _, count, *rest = head.split()
    lemmas = [_MARKER.sub("", lemma).replace("_", " ") for lemma in rest[: 2 * int(count, 16) : 2]]
    title = ", ".join(dict.fromkeys(lemmas))
    return {"_id": f"{part}-{offset}", "title": title, "text": f"{title}: {gloss.strip()}"}


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
