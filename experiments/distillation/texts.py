"""The training texts of the query encoders that ship, and the collections that judge them.

Training uses nothing of scifact and covid-qa, and no test query of the other collections.
"""

import json
import re
from itertools import chain
from pathlib import Path

from measuring.experiment import settings_beside
from swiftlet.corpora.collections import read_queries
from swiftlet.corpora.trec import read_qrels
from swiftlet.errors import InvalidArgumentError
from swiftlet.types import Query

SETTINGS = settings_beside(__file__)
CORPORA: list[str] = SETTINGS["corpora"]
TESTS: list[tuple[str, str]] = [(name, split) for name, split in SETTINGS["tests"]]
WEB_QUERIES, WORDNET = "web-queries", "wordnet"
WORDNET_FOLDER = Path("/usr/share/wordnet")
PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
NUM_DEVELOPMENT, NUM_COMPARED = 400, 1000
_MARKER = re.compile(r"\(\w+\)$")
"""The syntactic marker of an adjective, as in galore(ip)."""


def collections() -> list[str]:
    """The folders of DATA that are needed."""
    judged = [name for name, _ in (*TESTS, *SETTINGS["learnt"], *SETTINGS["development"])]
    return list(dict.fromkeys([*judged, *CORPORA, WEB_QUERIES]))


def prepared(data: Path, wordnet: Path, folder: Path) -> dict[str, tuple[str, ...]]:
    """Write the texts into `folder`; files of queries, and corpora, to train on.

    :raises InvalidArgumentError: When `wordnet` lacks WordNet's files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / WORDNET).is_dir():
        _write_wordnet(wordnet, folder / WORDNET)
    queries = folder / "training-queries.jsonl"
    if not queries.is_file():
        partial = queries.with_suffix(".partial")
        partial.write_text("".join(_training_queries(data)), "utf-8")
        partial.rename(queries)
    corpora = [*(data / name for name in CORPORA), folder / WORDNET]
    logs = (data / WEB_QUERIES / "queries.jsonl", queries)
    return {"queries": tuple(map(str, logs)), "corpora": tuple(map(str, corpora))}


def _write_wordnet(source: Path, out: Path) -> None:
    """WordNet as a corpus: synonyms as titles, with their gloss as text."""
    if not (source / "data.noun").is_file():
        raise InvalidArgumentError(
            f"{source} has no data.noun: install Debian's package wordnet-base, or name a folder "
            "that has it by --wordnet"
        )
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


def _training_queries(data: Path) -> list[str]:
    """Queries of the training collections, but for those by which encoders are judged."""

    def queries(name: str, split: str) -> list[Query]:
        known = read_qrels(data / name / "qrels" / f"{split}.tsv")
        return [query for query in read_queries(data / name) if query.query_id in known]

    def some(found: list[Query]) -> list[Query]:
        return found[:: max(1, len(found) // NUM_DEVELOPMENT)][:NUM_DEVELOPMENT]

    # Every development and test query, and all queries of scifact and covid-qa.
    elsewhere = chain(
        *(some(queries(*each)) for each in SETTINGS["development"]),
        *(queries(*each) for each in TESTS),
        *(read_queries(data / name) for name in ("scifact", "covid-qa")),
    )
    asked = {query.text.strip().casefold() for query in elsewhere}
    return [
        json.dumps({"text": query.text}, ensure_ascii=False) + "\n"
        for each in SETTINGS["learnt"]
        for query in queries(*each)
        if query.text.strip().casefold() not in asked
    ]
