"""The training texts of the shipped query encoders, and the collections for their evaluation.

Training uses nothing of scifact and covid-qa, and no test query of the other collections.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from export.encoder_directory import export_encoder
from swiftlet.cli.terminal import ProgressBars
from swiftlet.encoders import torch_weights
from swiftlet.indexing.build import BuildSettings, build_index
from swiftlet.retrieval.corpora.collections import read_documents, read_qrels, read_queries
from swiftlet.retrieval.types import Query

WEB_QUERIES = "web-queries"
LEARNT = [("squad-dev-v1.1", "train"), ("medquad", "all"), ("boolq", "dev"), ("qmsum", "train")]
# Without qmsum: transcribed speech is unlike most searched text.
CORPORA = ["wiki-passages-2wiki", "medquad", "boolq", "squad-dev-v1.1"]
WORDNET = "wordnet"
WORDNET_FOLDER = Path("/usr/share/wordnet")
PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
NUM_DEVELOPMENT = 400

# The syntactic marker of an adjective, as in galore(ip).
_MARKER = re.compile(r"\(\w+\)$")


@dataclass(frozen=True, slots=True)
class Collection:
    """Judged queries of one collection, searched among all of its documents."""

    name: str
    split: str


# These choose the settings. The development queries of the first two are not trained on.
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
class Workplace:
    """The folder of the data, and the folder of all files made from them."""

    data: Path
    folder: Path

    @property
    def training_queries(self) -> Path:
        """Queries of the training collections, without the development queries."""
        return self.folder / "training-queries.jsonl"

    @property
    def web_queries(self) -> Path:
        """Queries typed by people."""
        return self.data / WEB_QUERIES / "queries.jsonl"

    @property
    def corpora(self) -> list[Path]:
        """The sources of sentences."""
        return [*(self.data / name for name in CORPORA), self.folder / WORDNET]

    @property
    def teacher_embeddings(self) -> Path:
        return self.folder / "teacher-embeddings"

    def run(self, name: str) -> Path:
        return self.folder / "runs" / name

    def exported(self, name: str) -> Path:
        """A finished run in ONNX."""
        return self.folder / "encoders" / name

    def index(self, name: str) -> Path:
        """The exact index of a collection's documents, by the teacher in fp32."""
        return self.folder / "indexes" / name

    def judged(self, collection: Collection, *, development: bool) -> tuple[list[Query], Path]:
        """The judged queries, and the path of their qrels."""
        qrels = self.data / collection.name / "qrels" / f"{collection.split}.tsv"
        known = read_qrels(qrels)
        queries = [q for q in read_queries(self.data / collection.name) if q.query_id in known]
        if development:
            queries = queries[:: max(1, len(queries) // NUM_DEVELOPMENT)][:NUM_DEVELOPMENT]
        return queries, qrels


def prepare(data: Path, wordnet: Path, folder: Path) -> Workplace:
    """Fill `folder`; takes half an hour the first time.

    :param wordnet: The folder of WordNet's `data.noun` and so on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    workplace = Workplace(data, folder)
    if not (folder / WORDNET).is_dir():
        _write_wordnet(wordnet, folder / WORDNET)
    if not workplace.training_queries.is_file():
        _write_training_queries(workplace)
    encoder = folder / "teacher"
    if not encoder.is_dir():
        export_encoder(
            torch_weights(), encoder, name="all-MiniLM-L6-v2", max_tokens=256, precisions=["fp32"]
        )
    for name in sorted({collection.name for collection in (*TESTS, *DEVELOPMENT)}):
        if not workplace.index(name).is_dir():
            with ProgressBars() as progress:
                build_index(
                    read_documents(data / name),
                    encoder,
                    workplace.index(name),
                    BuildSettings(factory="Flat"),
                    progress=progress,
                )
    return workplace


def _write_wordnet(source: Path, out: Path) -> None:
    """WordNet as a corpus: synonyms as titles, with their gloss as text."""
    if not (source / "data.noun").is_file():
        raise SystemExit(f"{source} has no data.noun: install Debian's package wordnet-base")
    partial = out.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    with (partial / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for part in PARTS_OF_SPEECH:
            for line in (source / f"data.{part}").read_text("utf-8").splitlines():
                # Indented lines are the licence.
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


def _write_training_queries(workplace: Workplace) -> None:
    asked = {text.casefold() for text in _asked_elsewhere(workplace)}
    lines: list[str] = []
    for name, split in LEARNT:
        known = read_qrels(workplace.data / name / "qrels" / f"{split}.tsv")
        lines += [
            query.text
            for query in read_queries(workplace.data / name)
            if query.query_id in known and query.text.strip().casefold() not in asked
        ]
    partial = workplace.training_queries.with_suffix(".partial")
    records = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in lines)
    partial.write_text("".join(records), "utf-8")
    partial.rename(workplace.training_queries)


def _asked_elsewhere(workplace: Workplace) -> Iterator[str]:
    """Every development and test query, and all queries of scifact and covid-qa."""
    for collections, development in ((DEVELOPMENT, True), (TESTS, False)):
        for collection in collections:
            queries, _ = workplace.judged(collection, development=development)
            yield from (query.text.strip() for query in queries)
    for name in ("scifact", "covid-qa"):
        yield from (query.text.strip() for query in read_queries(workplace.data / name))
