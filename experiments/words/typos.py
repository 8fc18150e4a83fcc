"""Typing errors in queries: nDCG@10 with and without corrections, and the time of both.

    python -m experiments.words.typos --data DATA

DATA has the collections in BEIR's layout. A typing error is made in the rarest word of each query:
two letters are swapped, or one is dropped, doubled or replaced. Takes a quarter of an hour.
"""

import random
import re
import string
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from unittest.mock import patch

import tantivy

import swiftlet
from experiments.indexes import collections, folder_of, index_of, values_of
from measuring.experiment import Experiment, Found, Run, settings_beside
from measuring.results import Figures, alternating, by_query, means
from swiftlet.corpora.collections import read_documents
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.evaluation.significance import paired_t_test
from swiftlet.index.lexical import typos
from swiftlet.index.lexical.index import LexicalIndex
from swiftlet.index.lexical.writer import write_lexical_index
from swiftlet.types import Query

SETTINGS = settings_beside(__file__)
ENCODED, ALONE, SPEED = (SETTINGS[name] for name in ("encoded", "by_words_alone", "speed"))
READ, PACKAGES = [*ENCODED, *ALONE, *SPEED["sources"]], ["onnxruntime", "faiss-cpu", "tantivy"]
EXPERIMENT = Experiment("typos", __doc__, READ, PACKAGES)
SIDES = {"before": 0, "after": typos.MOST_NEAR}
HYBRID = {"two layers": DEFAULT_QUERY_ENCODER, "look-up": LOOKUP_QUERY_ENCODER}
WORD = re.compile(rf"\b[A-Za-z]{{{typos.EXACT_BELOW},}}\b")
MOST_FOUND = 100


def with_error(choice: random.Random, word: str) -> str:
    at = choice.randrange(len(word) - 1)
    ways = (
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[: at + 1] + word[at:],
        word[:at] + choice.choice(string.ascii_lowercase) + word[at + 1 :],
    )
    found = choice.choice(ways)
    return found if found != word else with_error(choice, word)


def misspelt(queries: Sequence[Query], index: LexicalIndex, seed: int) -> Iterator[Query]:
    """The queries with an error in the rarest word that some passage has; others are left out."""
    choice = random.Random(seed)
    for query in queries:
        found = [(min(index.frequencies(index.analysis.words(each[0])), default=0), each.span())
                 for each in WORD.finditer(query.text)]  # fmt: skip
        if known := [each for each in found if each[0]]:
            _, (start, end) = min(known)
            wrong = with_error(choice, query.text[start:end].lower())
            yield replace(query, text=query.text[:start] + wrong + query.text[end:])


def figures_of(options: Namespace, kind: str, name: str) -> Figures:
    if kind == "speed":
        return speed(options.data, int(name))
    found = collections(options.data)[name]()
    chosen = random.Random(0).sample(found.queries, min(SETTINGS["queries"], len(found.queries)))
    is_encoded = name in ENCODED
    folder = folder_of(options, name if is_encoded else f"{name}, look-up")
    place = index_of(folder, found, DEFAULT_ENCODER if is_encoded else LOOKUP_QUERY_ENCODER)
    with swiftlet.open(place, encoder=LOOKUP_QUERY_ENCODER) as searcher:
        words: Any = searcher.parts.lexical
        wrong = [[*misspelt(chosen, words, seed)] for seed in range(SETTINGS["seeds"])]
        corrected = sum(words.words(q.text, exact=True) != words.words(q.text) for q in chosen)

    def values(several: Sequence[Sequence[Query]], near: int, encoder: Path, **fields: Any) -> Any:
        with patch.object(typos, "MOST_NEAR", near):
            return by_query([values_of(place, encoder, replace(found, queries=[*each]), **fields)
                             for each in several])  # fmt: skip

    by_words: Figures = {"encoder": LOOKUP_QUERY_ENCODER, "mode": "lexical"}
    if kind == "near":
        return {f"{near}": fmean(values(wrong, near, **by_words).values())
                for near in SETTINGS["near"]}  # fmt: skip
    systems = {"lexical": by_words}
    systems |= {each: {"encoder": encoder} for each, encoder in HYBRID.items() if is_encoded}
    sets = {"clean": [chosen], "misspelt": wrong}
    return {"documents": len(found.documents), "queries": len(chosen), "corrected": corrected} | {
        system: {f"{which}, {side}": values(several, near, **fields)
                 for which, several in sets.items() for side, near in SIDES.items()}
        for system, fields in systems.items()
    }  # fmt: skip


def passages(data: Path) -> Iterator[str]:
    for name in SPEED["sources"]:
        for document in read_documents(data / name):
            words = document.text.split()
            for start in range(0, len(words), SPEED["words"]):
                yield " ".join(words[start : start + SPEED["words"]])


def speed(data: Path, count: int) -> Figures:
    """Medians over queries, in ms, of analysing a query and finding the best passages."""
    with TemporaryDirectory() as folder:
        texts = ((text, ()) for text in islice(passages(data), count))
        write_lexical_index(Path(folder, "words"), texts, "english")
        index = LexicalIndex.open(Path(folder, "words"), "english")
    queries = collections(data)["boolq"]().queries
    known = [q for q in queries if all(index.words(q.text).passages.values())][: SPEED["queries"]]
    wrong = [q for q in misspelt(known, index, 0)
             if index.words(q.text) != index.words(q.text, exact=True)]  # fmt: skip
    stems = [word for q in wrong for word, n in index.words(q.text, exact=True).passages.items()
             if not n]  # fmt: skip

    def fuzzy(word: str) -> None:
        query = tantivy.Query.fuzzy_term_query(index.schema, "text", word, 1)
        index.searcher.search(query, MOST_FOUND, count=False)

    figures: Figures = {"fuzzy": milliseconds(fuzzy, stems), "queries": len(wrong)}
    for name, arrays in (("arrays", index.postings), ("tantivy", None)):
        index.postings = arrays
        ways = {side: lambda text, near=near: index.parse(text, exact=not near).search(MOST_FOUND)
                for side, near in SIDES.items()}  # fmt: skip
        for which, some in (("known", known), ("misspelt", wrong)):
            rounds: dict[str, list[float]] = {side: [] for side in SIDES}
            for side in alternating(SIDES, SPEED["rounds"]):
                rounds[side].append(milliseconds(ways[side], [query.text for query in some]))
            figures[f"{name}, {which}"] = {side: median(each) for side, each in rounds.items()}
    return figures


def milliseconds(work: Callable[[str], object], texts: Sequence[str]) -> float:
    taken = []
    for text in texts:
        began = perf_counter()
        work(text)
        taken.append(1000 * (perf_counter() - began))
    return median(taken)


def collected(_: Namespace, found: Found) -> Figures:
    of_kind: dict[str, dict[str, Figures]] = {"quality": {}, "near": {}, "speed": {}}
    for (kind, name), row in found.items():
        of_kind[kind][name] = {**row}
    for row in of_kind["quality"].values():
        for system in {"lexical", *HYBRID} & {*row}:
            test = paired_t_test(row[system]["clean, after"], row[system]["clean, before"])
            row[system] = means(row[system]) | {"p": test.p_value}
    return {"seeds": SETTINGS["seeds"], **of_kind}


if __name__ == "__main__":
    QUALITY: list[Run] = [("quality", name) for name in (*ENCODED, *ALONE)]
    NEAR: list[Run] = [("near", name) for name in ENCODED]
    TIMES: list[Run] = [("speed", f"{count}") for count in SPEED["passages"]]
    EXPERIMENT.main(lambda _: [[run] for run in (*QUALITY, *NEAR, *TIMES)], figures_of, collected)
