"""How often the answer is in a context of so many tokens, beside grep and reading files.

    python -m experiments.context --data DATA

DATA has the collections in BEIR's layout. The sources are those of the Python that runs this; its
100 questions and the lines that answer stand in experiments/context.tsv. Takes half an hour.
"""

import json
import math
import platform
import random
import re
import sysconfig
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np

import swiftlet
from measuring.experiment import Experiment, Found, settings_beside
from measuring.results import Figures
from swiftlet.corpora.collections import read_documents
from swiftlet.corpora.files.documents import read_file
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.trec import read_qrels
from swiftlet.errors import RetrievalError
from swiftlet.search import context
from swiftlet.search.ranking import weighted_sum
from swiftlet.search.request import CONTEXT_WEIGHT, DEFAULT_WEIGHT
from swiftlet.search.searcher import Searcher
from swiftlet.search.stages import hits
from swiftlet.types import Context, Document, Excerpt, Passage, Span

SETTINGS = settings_beside(__file__)
SOURCES, MEETINGS = "standard library", "qmsum"
EXPERIMENT = Experiment("context", __doc__, [*SETTINGS["splits"]], ["onnxruntime", "tantivy"])
WORD, LINE = re.compile(r"\w+"), re.compile(r".*\n?")

Ranked = Sequence[tuple[Passage, float]]


class Question(NamedTuple):
    """A question, its document, and the spans that answer it: one of them is enough."""

    text: str
    document_id: str
    answers: list[Span]


def sources() -> tuple[list[Document], list[Question]]:
    """The standard library's sources, and the questions of context.tsv."""
    settings = SETTINGS["python"]
    if platform.python_version() != settings["version"]:
        raise RetrievalError(f"the lines are those of Python {settings['version']}: run that")
    folder, left_out = Path(sysconfig.get_paths()["stdlib"]), {*settings["left_out"]}
    rows = [
        row.split("\t") for row in Path(__file__).with_suffix(".tsv").read_text().splitlines()[1:]
    ]
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
            starts = [found.start() for found in LINE.finditer(read[name].text)]
            part = read[name].text[starts[int(first) - 1] : starts[int(last)]]
            start = starts[int(first) - 1] + len(part) - len(part.lstrip())
            questions.append(Question(text, name, [(start, start + len(part.strip()))]))
    return [*read.values()], questions


def collection(folder: Path) -> tuple[list[Document], list[Question]]:
    """The documents of a collection and its questions; meetings are those that are asked about."""
    qrels = read_qrels(folder / "qrels" / f"{SETTINGS['splits'][folder.name]}.tsv")
    asked = {name for relevant in qrels.values() for name in relevant}
    documents = {
        each.document_id: each
        for each in read_documents(folder)
        if folder.name != MEETINGS or each.document_id in asked
    }
    spans = folder / "spans.jsonl"
    rows = map(json.loads, spans.read_text("utf-8").splitlines()) if spans.is_file() else ()
    turns = {row["query"]: row["turn_spans"] for row in rows}
    questions = []
    for row in map(json.loads, (folder / "queries.jsonl").read_text("utf-8").splitlines()):
        for name in qrels.get(row["_id"], ()):
            text = documents[name].text
            if turns:
                starts = [found.start() for found in LINE.finditer(text)] + [len(text)] * 2
                answers = [(starts[first], starts[last + 1]) for first, last in turns[row["_id"]]]
            else:
                wanted = [re.escape(each) for each in row["metadata"]["answers"] if each]
                answers = [m.span() for each in wanted for m in re.finditer(each, text)]
            if answers:
                questions.append(Question(row["text"], name, answers))
    return [*documents.values()], questions


def is_found(name: str, asked: Question, spans: Sequence[Span]) -> bool:
    """Whether an answer is in a span; of turns, whether so many characters are in the spans."""
    if name != MEETINGS:
        return any(s <= first and last <= e for s, e in spans for first, last in asked.answers)
    found = sum(max(0, min(e, b) - max(s, a)) for s, e in spans for a, b in asked.answers)
    return bool(found >= min(SETTINGS["turns"]["characters"], sum(b - a for a, b in asked.answers)))


def paragraphs(document: Document, passage: Passage) -> Span:
    """A passage, grown to whole paragraphs."""
    before = document.text.rfind("\n\n", 0, passage.start)
    after = document.text.find("\n\n", passage.end)
    return (before + 2 if before >= 0 else 0), (after if after >= 0 else len(document.text))


def neighbours(document: Document, passage: Passage) -> Span:
    """A passage with half of the text before it and after it, in whole sentences."""
    more, end = (passage.end - passage.start) // 2, len(document.text)
    wider = document.passage(0, max(0, passage.start - more), min(end, passage.end + more))
    return SENTENCES(document, wider)


SENTENCES, CONTEXT, HITS, GREP = context.grown, "sentences", "hits", "grep, then read"
SEARCH, OWN = "in the order of a search", "the asked document alone"
GROWTHS: dict[str, Callable[[Document, Passage], Span]] = {
    HITS: lambda _, passage: (passage.start, passage.end),
    "passages": lambda _, passage: (passage.start, passage.end),
    CONTEXT: SENTENCES,
    "neighbours": neighbours,
    "paragraphs": paragraphs,
}
SYSTEMS = [*GROWTHS, SEARCH, OWN, GREP]
CAUSES = ["found", "document", "passage", "cut"]


class Grep:
    """Greps the words of a question, and reads the files with the rarest of them, from there on."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._texts = {each.document_id: each.text for each in documents}
        self._lines = {name: [*LINE.finditer(text)] for name, text in self._texts.items()}
        self._places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for name, lines in self._lines.items():
            for number, line in enumerate(lines):
                for word in {*WORD.findall(line[0].lower())}:
                    self._places[word][name].append(number)

    def context(self, query: str, max_tokens: int) -> list[Excerpt]:
        """What is read within a number of tokens; what grep prints costs nothing."""
        files, lines = defaultdict[str, float](float), defaultdict[tuple[str, int], float](float)
        for word in sorted({*WORD.findall(query.lower())} & self._places.keys()):
            weight = math.log((len(self._texts) + 1) / len(self._places[word]))
            for name, numbers in self._places[word].items():
                files[name] += weight
                for number in numbers:
                    lines[name, number] += weight
        best: dict[str, int] = {}
        for name, number in sorted(lines, key=lambda each: (-lines[each], each)):
            best.setdefault(name, number)
        left, read, found = 4 * max_tokens, SETTINGS["grep"], list[Excerpt]()
        for name in sorted(files, key=lambda each: (-files[each], each)):
            start = self._lines[name][max(0, best[name] - read["lines_before"])].start()
            size = min(left - len(name), read["characters"])
            if size <= 0:
                break
            text = self._texts[name][start : start + size]
            found.append(Excerpt(name, "", "", start, start + len(text), 0, 0, text, 0))
            left -= len(name) + len(text.encode())
        return found


@contextmanager
def kept() -> Iterator[list[Ranked]]:
    """What searches give to be packed, in order; they pack nothing meanwhile."""
    taken, packed = list[Ranked](), vars(hits)["packed"]

    def take(ranked: Iterable[tuple[Passage, float]], *_: object) -> Context:
        taken.append([*ranked])
        return Context("", [], 0)

    vars(hits)["packed"] = take
    try:
        yield taken
    finally:
        vars(hits)["packed"] = packed


def rankings(
    searcher: Searcher, passages: Sequence[Passage], asked: Question, weight: float | None
) -> dict[str, Ranked]:
    """The passages of a question in each order: of a context, of a search, of its document."""
    parts, most = searcher.parts, max(SETTINGS["budgets"])
    with kept() as taken:
        searcher.context(asked.text, most, weight=weight)
        share, vars(hits)["_OF_DOCUMENT"] = vars(hits)["_OF_DOCUMENT"], 0
        searcher.context(asked.text, most, weight=weight or DEFAULT_WEIGHT)
        vars(hits)["_OF_DOCUMENT"] = share
    own = [row for row, each in enumerate(passages) if each.document_id == asked.document_id]
    rows = np.array(own)
    dense = parts.index.scores(searcher.encoder.encode([asked.text])[0], rows)
    words = parts.lexical.parse(asked.text).scores(rows) if parts.lexical else 0 * dense
    scores = weighted_sum(dense, words, weight or CONTEXT_WEIGHT)
    best = np.argsort(-scores, kind="stable").tolist()
    alone = [(passages[own[place]], float(scores[place])) for place in best]
    return {CONTEXT: taken[0], SEARCH: taken[1], OWN: alone}


def cause(name: str, asked: Question, spans: Sequence[Span]) -> str:
    """Why an answer is not in a context, by the excerpts of the asked document."""
    if is_found(name, asked, spans):
        return "found"
    if not spans:
        return "document"
    return "cut" if any(touches(asked, each) for each in spans) else "passage"


def touches(asked: Question, span: Span) -> bool:
    """Whether a part of an answer is in a span."""
    return any(span[0] < last and first < span[1] for first, last in asked.answers)


def ranks(asked: Question, ranked: Ranked) -> tuple[int, int]:
    """The places of the asked document and of a passage with a part of an answer."""
    own = [each for each, _ in ranked if each.document_id == asked.document_id]
    order = [*dict.fromkeys(each.document_id for each, _ in ranked)]
    first = order.index(asked.document_id) if own else len(ranked)
    passages = [each for each, _ in ranked]
    found = (passages.index(each) for each in own if touches(asked, (each.start, each.end)))
    return first, next(found, len(ranked))


def milliseconds(searcher: Searcher, questions: Sequence[Question], weight: float | None) -> float:
    """The processor time of a context, on average: the best of three rounds of all questions."""
    seconds = list[float]()
    for _ in range(3):
        began = process_time()
        for asked in questions:
            searcher.context(asked.text, SETTINGS["goal"][0], weight=weight)
        seconds.append(process_time() - began)
    return 1000 * min(seconds) / len(questions)


def figures_of(options: Namespace, name: str, index: str) -> Figures:
    """The share of questions whose answer is in the context, by system and tokens."""
    texts, questions = sources() if name == SOURCES else collection(options.data / name)
    questions = random.Random(0).sample(questions, min(len(questions), SETTINGS["questions"]))
    documents, grep = {each.document_id: each for each in texts}, Grep(texts)
    place, settings = options.work / f"{name} of {len(texts)}, {index}", SETTINGS["indexes"][index]
    if not place.exists():
        swiftlet.build(texts, place, encoder=settings.get("encoder"))
    found, causes, places = Counter[tuple[str, int]](), Counter[str](), list[tuple[int, int]]()
    with swiftlet.open(place) as searcher:
        stored = searcher.parts.store.passages(range(searcher.num_passages), include_text=False)
        passages = [each.passage for each in stored]
        for asked in questions:
            orders = rankings(searcher, passages, asked, settings.get("weight"))
            ranked = orders[CONTEXT]
            places.append(ranks(asked, ranked))
            best = {passage.document_id: (passage, score) for passage, score in reversed(ranked)}
            of_documents = [each for each in ranked if each in best.values()]
            for system, budget in product(SYSTEMS, SETTINGS["budgets"]):
                if system == GREP:
                    excerpts = grep.context(asked.text, budget)
                else:
                    vars(context)["grown"] = GROWTHS.get(system, SENTENCES)
                    given = of_documents if system == HITS else orders.get(system, ranked)
                    excerpts = context.packed(given, documents.__getitem__, budget).excerpts
                own = [(e.start, e.end) for e in excerpts if e.document_id == asked.document_id]
                found[system, budget] += is_found(name, asked, own)
                if (system, budget) == (CONTEXT, SETTINGS["goal"][0]):
                    causes[cause(name, asked, own)] += 1
        rows: Figures = {"documents": len(texts), "passages": searcher.num_passages}
        rows["milliseconds"] = milliseconds(searcher, questions, settings.get("weight"))
    rows |= {"questions": len(questions), "recall": {}}
    for (system, budget), count in sorted(found.items()):
        rows["recall"].setdefault(system, {})[f"{budget}"] = count / len(questions)
    rows["causes"] = {each: causes[each] / len(questions) for each in CAUSES}
    first, passage = np.array(places).T
    rows["ranks"] = {
        "document": {f"{top}": float(np.mean(first < top)) for top in SETTINGS["ranks"]},
        "passage": {f"{top}": float(np.mean(passage < top)) for top in SETTINGS["ranks"]},
    }
    return rows


def collected(_options: Namespace, found: Found) -> Figures:
    """The figures of all collections, and the settings."""
    rows: Figures = {}
    for (name, index), figures in found.items():
        rows.setdefault(name, {})[index] = figures
    first = [CONTEXT, SEARCH, OWN]
    return {"rows": rows, "settings": SETTINGS, "systems": SYSTEMS, "first_systems": first}


if __name__ == "__main__":
    RUNS = [*product(SETTINGS["collections"], SETTINGS["indexes"])]
    EXPERIMENT.main(lambda _: [RUNS], figures_of, collected)
