"""The training texts of the shipped query encoders, and the collections for their evaluation.

Training uses nothing of scifact and covid-qa, and no test query of the other collections.
"""

import json
import re
import tomllib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from export.encoder_directory import export_encoder
from swiftlet.cli.terminal import ProgressBars
from swiftlet.corpora.collections import read_documents, read_qrels, read_queries
from swiftlet.encoders import torch_weights
from swiftlet.index.building.build import build_index
from swiftlet.index.building.settings import BuildSettings
from swiftlet.types import Qrels, Query

SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
CORPORA: list[str] = SETTINGS["corpora"]
WEB_QUERIES, TEACHER, WORDNET = "web-queries", "all-MiniLM-L6-v2", "wordnet"
WORDNET_FOLDER = Path("/usr/share/wordnet")
PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
NUM_DEVELOPMENT = 400

# The syntactic marker of an adjective, as in galore(ip).
_MARKER = re.compile(r"\(\w+\)$")


class Collection(NamedTuple):
    """Judged queries of one collection, searched among all of its documents."""

    name: str
    split: str


LEARNT, DEVELOPMENT, TESTS = (
    [Collection(*each) for each in SETTINGS[name]] for name in ("learnt", "development", "tests")
)


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

    def run(self, name: str) -> Path:
        return self.folder / "runs" / name

    def exported(self, name: str) -> Path:
        return self.folder / "encoders" / name

    def index(self, name: str) -> Path:
        """The exact index of a collection, as the teacher in fp32 embeds it; built once."""
        encoder, index = self.folder / "teacher", self.folder / "indexes" / name
        if not encoder.is_dir():
            weights = torch_weights()
            export_encoder(weights, encoder, name=TEACHER, max_tokens=256, precisions=["fp32"])
        if not index.is_dir():
            exact = BuildSettings(factory="Flat", language=None)
            with ProgressBars() as progress:
                documents = read_documents(self.data / name)
                build_index(documents, encoder, index, exact, progress=progress)
        return index

    def judged(self, collection: Collection, *, development: bool) -> tuple[list[Query], Qrels]:
        """The judged queries, and their judgements."""
        known = read_qrels(self.data / collection.name / "qrels" / f"{collection.split}.tsv")
        queries = [q for q in read_queries(self.data / collection.name) if q.query_id in known]
        if development:
            queries = queries[:: max(1, len(queries) // NUM_DEVELOPMENT)][:NUM_DEVELOPMENT]
        return queries, {query.query_id: known[query.query_id] for query in queries}


def prepare(data: Path, wordnet: Path, folder: Path) -> Workplace:
    """Write the texts to train on into `folder`; `wordnet` has WordNet's `data.noun` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    workplace = Workplace(data, folder)
    if not (folder / WORDNET).is_dir():
        _write_wordnet(wordnet, folder / WORDNET)
    if not workplace.training_queries.is_file():
        _write_training_queries(workplace)
    return workplace


def _write_wordnet(source: Path, out: Path) -> None:
    """WordNet as a corpus: synonyms as titles, with their gloss as text."""
    if not (source / "data.noun").is_file():
        raise SystemExit(f"{source} has no data.noun: install Debian's package wordnet-base")
    partial = out.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    records = [
        json.dumps(_synonyms(part, line), ensure_ascii=False) + "\n"
        for part in PARTS_OF_SPEECH
        for line in (source / f"data.{part}").read_text("utf-8").splitlines()
        if not line.startswith("  ")  # indented lines are the licence
    ]
    (partial / "corpus.jsonl").write_text("".join(records), "utf-8")
    partial.rename(out)


def _synonyms(part: str, line: str) -> dict[str, str]:
    """A line of WordNet's data files: offset, file, part, count in hex, (lemma, sense)… | gloss."""
    head, _, gloss = line.partition(" | ")
    offset, _, _, count, *rest = head.split()
    lemmas = [_MARKER.sub("", lemma).replace("_", " ") for lemma in rest[: 2 * int(count, 16) : 2]]
    title = ", ".join(dict.fromkeys(lemmas))
    return {"_id": f"{part}-{offset}", "title": title, "text": f"{title}: {gloss.strip()}"}


def _write_training_queries(workplace: Workplace) -> None:
    # Every development and test query, and all queries of scifact and covid-qa.
    elsewhere = chain(
        *(workplace.judged(each, development=True)[0] for each in DEVELOPMENT),
        *(workplace.judged(each, development=False)[0] for each in TESTS),
        *(read_queries(workplace.data / name) for name in ("scifact", "covid-qa")),
    )
    asked = {query.text.strip().casefold() for query in elsewhere}
    lines: list[str] = []
    for each in LEARNT:
        queries, _ = workplace.judged(each, development=False)
        texts = [query.text for query in queries if query.text.strip().casefold() not in asked]
        lines += [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    partial = workplace.training_queries.with_suffix(".partial")
    partial.write_text("".join(lines), "utf-8")
    partial.rename(workplace.training_queries)
