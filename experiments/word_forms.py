"""The forms of words that share a stem, and words in scripts without spaces: for experiments.words.

The packages simplemma (forms of words) and budoux (borders of words) are used where installed.
"""

import random
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import fmean
from unicodedata import normalize

import tantivy

from measuring.experiment import settings_beside
from measuring.results import Figures
from swiftlet.index.lexical.analysis import VERSION, Analysis, analysis_of
from swiftlet.index.lexical.folding import folded
from swiftlet.index.lexical.syllables import syllable_words
from swiftlet.index.lexical.writer import GrowingWords

SETTINGS = settings_beside(str(Path(__file__).with_name("words")))
VERSIONS = (1, VERSION)
PLAIN = str.maketrans(SETTINGS["plain"])
DICTIONARIES = "simplemma.strategies.dictionaries.dictionary_factory"


def bare(word: str) -> str:
    return folded(word.translate(PLAIN))


class Units(Analysis):
    """Words that functions give."""

    def __init__(self, indexed: Callable[[str], list[str]], asked: Callable[[str], list[str]]):
        super().__init__("none")
        self.analyser = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        self.indexed = lambda text: " ".join(indexed(text))  # type: ignore[method-assign]
        self.words, self.names = asked, lambda _: []  # type: ignore[assignment, method-assign]


def syllables(single: bool) -> Callable[[str], list[str]]:
    return lambda text: syllable_words(text, single=single).split()


def triples(text: str) -> list[str]:
    return [text[at : at + 3] for at in range(max(1, len(text) - 2))]


def units(language: str) -> dict[str, Analysis]:
    """The ways to find words in a script without spaces."""
    pairs, both = syllables(single=False), syllables(single=True)
    found = {"version 1": analysis_of("none", version=1), "version 2": analysis_of("none"),
             "pairs alone": Units(pairs, pairs), "syllables in queries, too": Units(both, both),
             "three characters": Units(triples, triples)}  # fmt: skip
    try:
        name = {"chinese": "simplified_chinese"}.get(language, language)
        parse = getattr(import_module("budoux"), f"load_default_{name}_parser")().parse
    except (ImportError, AttributeError):  # it is not installed, or has no such language
        return found
    return found | {"BudouX": Units(parse, parse)}


def text_of(entry: str | bytes) -> str:
    text = entry if isinstance(entry, str) else entry.decode()
    return normalize("NFC", text.lower())


def of_stems(_options: Namespace, language: str) -> Figures:
    """The share of forms of words, some with accents, that share a stem with their basic form."""
    try:
        dictionary = import_module(DICTIONARIES).DefaultDictionaryFactory()
    except ImportError:
        return {}
    read = dictionary.get_dictionary(SETTINGS["dictionaries"][language])
    shuffled = random.Random(0).sample(sorted(read), min(SETTINGS["entries"], len(read)))
    pairs = ((text_of(entry), text_of(read[entry])) for entry in shuffled)
    chosen = [
        (form, basic)
        for form, basic in pairs
        if form != basic and f"{form}{basic}".isalpha() and bare(form + basic) != form + basic
    ]
    first, second = (analysis_of(language, version=version).words for version in VERSIONS)
    ways = {"with": first, "without": lambda word: first(bare(word)), "version 2": second}
    shares = {way: fmean(not {*of(a)}.isdisjoint(of(b)) for a, b in chosen)
              for way, of in ways.items()}  # fmt: skip
    return {"pairs": len(chosen), "shares": shares}


def of_sentences(_options: Namespace, language: str) -> Figures:
    """For each word of the sentences, what is found of them: all ways of `units`."""
    sentences = [each.split("|") for each in SETTINGS["sentences"][language]]
    words, ways = sorted({word for each in sentences for word in each}), {}
    for name, analysis in units(language).items():
        index = GrowingWords(analysis).with_texts(["".join(each) for each in sentences])
        recalls, precisions, firsts = [], [], []
        for word in words:
            right = {row for row, each in enumerate(sentences) if word in each}
            rows = index.parse(word).search(len(sentences))[1].tolist()
            common = len(right.intersection(rows))
            recalls.append(common / len(right))
            precisions.append(common / max(1, len(rows)))
            firsts.append(rows[:1] != [] and rows[0] in right)
        shares = zip(("found", "precision", "first"), (recalls, precisions, firsts), strict=True)
        ways[name] = {share: fmean(each) for share, each in shares}
    return {"sentences": len(sentences), "words": len(words), "ways": ways}
