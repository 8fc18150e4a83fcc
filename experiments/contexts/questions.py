"""Questions about documents, and the parts of the documents that answer them."""

import json
import platform
import random
import re
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from measuring.experiment import settings_beside
from swiftlet.corpora.collections import read_documents
from swiftlet.corpora.files.documents import read_file
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.trec import read_qrels
from swiftlet.errors import RetrievalError
from swiftlet.types import Document, Span

SETTINGS = settings_beside(__file__)
SOURCES, MEETINGS = "standard library", "qmsum"
_LINE = re.compile(r".*\n?")


class Question(NamedTuple):
    """A question, its document, and the spans that answer it.

    One of the answers is enough; of turns, a number of characters, or all that there are.
    """

    text: str
    document_id: str
    answers: list[Span]
    characters: int = 0

    def is_found(self, spans: Sequence[Span]) -> bool:
        """Whether spans of the document have the answer."""
        if not self.characters:
            return any(s <= first and last <= e for s, e in spans for first, last in self.answers)
        found = sum(max(0, min(e, b) - max(s, a)) for s, e in spans for a, b in self.answers)
        return bool(found >= min(self.characters, sum(b - a for a, b in self.answers)))

    def touches(self, span: Span) -> bool:
        """Whether a part of an answer is in a span."""
        return any(span[0] < last and first < span[1] for first, last in self.answers)


def asked(data: Path, name: str) -> tuple[list[Document], list[Question]]:
    """The documents of a collection, and some questions, always the same."""
    documents, found = _sources() if name == SOURCES else _collection(data / name)
    return documents, random.Random(0).sample(found, min(len(found), SETTINGS["questions"]))


def starts_of_lines(text: str) -> list[int]:
    """Where the lines of a text begin, and its end twice."""
    return [found.start() for found in _LINE.finditer(text)] + [len(text)] * 2


def _sources() -> tuple[list[Document], list[Question]]:
    """The standard library's sources, and the questions of questions.tsv."""
    settings = SETTINGS["python"]
    if platform.python_version() != settings["version"]:
        raise RetrievalError(f"the lines are those of Python {settings['version']}: run that")
    folder, left_out = Path(sysconfig.get_paths()["stdlib"]), {*settings["left_out"]}
    _, *lines = Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    paths = dict.fromkeys([*(folder / row[1] for row in rows), *sorted(folder.rglob("*.py"))])
    read, skipped = dict[str, Document](), SkippedLines()
    for path in paths:
        parts = path.relative_to(folder).parts
        is_left_out = parts[0].startswith("config-") or not left_out.isdisjoint(parts)
        if len(read) < SETTINGS["files"] and not is_left_out and path.read_bytes().strip():
            (document,) = read_file(path, folder, skipped)
            read[document.document_id] = document
    questions = []
    for text, name, first, last in rows:
        if name in read:
            starts = starts_of_lines(read[name].text)
            part = read[name].text[starts[int(first) - 1] : starts[int(last)]]
            start = starts[int(first) - 1] + len(part) - len(part.lstrip())
            questions.append(Question(text, name, [(start, start + len(part.strip()))]))
    return [*read.values()], questions


def _collection(folder: Path) -> tuple[list[Document], list[Question]]:
    """The documents of a collection and its questions; meetings are those that are asked about."""
    qrels = read_qrels(folder / "qrels" / f"{SETTINGS['splits'][folder.name]}.tsv")
    wanted = {name for relevant in qrels.values() for name in relevant}
    documents = {
        each.document_id: each
        for each in read_documents(folder)
        if folder.name != MEETINGS or each.document_id in wanted
    }
    turns = {row["query"]: row["turn_spans"] for row in _rows(folder / "spans.jsonl")}
    questions = []
    for row in _rows(folder / "queries.jsonl"):
        for name in qrels.get(row["_id"], ()):
            text, characters = documents[name].text, 0
            if turns:
                starts, characters = starts_of_lines(text), SETTINGS["turns"]["characters"]
                answers = [(starts[first], starts[last + 1]) for first, last in turns[row["_id"]]]
            else:
                given = [re.escape(each) for each in row["metadata"]["answers"] if each]
                answers = [m.span() for each in given for m in re.finditer(each, text)]
            if answers:
                questions.append(Question(row["text"], name, answers, characters))
    return [*documents.values()], questions


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of JSON lines; none if there is no file."""
    yield from map(json.loads, file.read_text("utf-8").splitlines() if file.is_file() else ())
