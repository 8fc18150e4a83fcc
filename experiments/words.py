"""Search by words before and after version 2 of the analysis: collections, languages, scripts.

    python -m experiments.words --data DATA

DATA has the collections of indexes.toml in BEIR's layout; nothing is encoded. The time of indexing
a language is measured on the machine's manual pages in it. Takes fifteen minutes of one core.
"""

import gzip
import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import process_time
from unicodedata import normalize

from experiments import indexes
from experiments.indexes import METRIC, some_queries
from measuring.experiment import Experiment, Found, settings_beside
from measuring.results import RESULTS, Figures, alternating
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.evaluation.metrics import evaluate
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.lexical.analysis import VERSION, analysis_of
from swiftlet.index.lexical.folding import folded
from swiftlet.index.lexical.index import LexicalIndex
from swiftlet.index.lexical.writer import GrowingWords, write_lexical_index

EXPERIMENT = Experiment("words", __doc__, [*indexes.SPLITS], ["tantivy", "ranx"])
SETTINGS = settings_beside(__file__)
VERSIONS, ROUNDS, RECALL, DEEP, CHARACTERS = (1, VERSION), 3, "recall@100", 100, 1000
PLAIN = str.maketrans(SETTINGS["plain"])


def bare(word: str) -> str:
    return folded(word.translate(PLAIN))


FORMS: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    "query without accents": (str, bare),
    "passage without accents": (bare, str),
    "passage decomposed": (lambda word: normalize("NFD", word), str),
    "passage in capital letters": (str.upper, str),
    "passage with a soft hyphen": (lambda word: f"{word[:2]}\u00ad{word[2:]}", str),
}
"""What a passage and a query have of a word."""


def figures_of(options: Namespace, kind: str, name: str) -> Figures:
    return dict(globals()[f"of_{kind}"](options, name))


def of_collection(options: Namespace, name: str) -> Figures:
    """Quality and processor time of both versions."""
    found = indexes.collections(options.data)[name]()
    splitter = BuildSettings().splitter(OnnxEncoder.load(DEFAULT_ENCODER, role="passage"))
    split = [(document, each) for document in found.documents for each in splitter.split(document)]
    texts = [encoder_text(document.title, each.text) for document, each in split]
    queries, qrels = some_queries(found)

    def searched(index: LexicalIndex) -> Figures:
        run, began = {}, process_time()
        for query in queries:
            best: dict[str, float] = {}
            for score, row in zip(*index.parse(query.text).search(4 * DEEP), strict=True):
                best.setdefault(split[row][0].document_id, float(score))
            run[query.query_id] = dict([*best.items()][:DEEP])
        return {"searching": process_time() - began, **evaluate(run, qrels, [METRIC, RECALL])}

    figures = indexed(texts, "english", searched)
    return {"passages": len(split), "queries": len(queries), "versions": figures}


def indexed(
    texts: Sequence[str], language: str, search: Callable[[LexicalIndex], Figures] = lambda _: {}
) -> Figures:
    """The least figures of each version in some rounds, of indexing and of what `search` gives."""
    rounds: list[tuple[int, Figures]] = []
    for version in alternating(VERSIONS, ROUNDS):
        with TemporaryDirectory() as folder:
            place, began = Path(folder, "words"), process_time()
            write_lexical_index(place, [(text, ()) for text in texts], language, version=version)
            seconds = process_time() - began
            found = search(LexicalIndex.open(place, language, version))
            rounds.append((version, {"indexing": seconds, **found}))
    return {f"{version}": {figure: min(each[figure] for of, each in rounds if of == version)
                           for figure in rounds[0][1]} for version in VERSIONS}  # fmt: skip


def of_manuals(_options: Namespace, language: str) -> Figures:
    """The processor time of indexing the machine's manual pages in a language."""
    files = sorted(Path("/usr/share/man", SETTINGS["manuals"][language]).rglob("*.gz"))
    text = " ".join(gzip.decompress(each.read_bytes()).decode(errors="ignore") for each in files)
    texts = [text[at : at + CHARACTERS] for at in range(0, len(text), CHARACTERS)]
    return {"characters": len(text), "versions": indexed(texts, language)} if texts else {}


def of_words(_options: Namespace, language: str) -> Figures:
    """How many of the words are found first, by form and version."""
    words, found = SETTINGS["words"][language], {}
    for form, (of_passage, of_query) in FORMS.items():
        passages, queries = [*map(of_passage, words)], [*map(of_query, words)]
        found[form] = [found_first(passages, queries, version, language) for version in VERSIONS]
    return {"words": len(words), "found": found}


def found_first(passages: list[str], queries: list[str], version: int, language: str) -> int:
    index = GrowingWords(analysis_of(language, version=version)).with_texts(passages)
    best = (index.parse(query).search(1)[1].tolist() for query in queries)
    return sum(rows == [row] for row, rows in enumerate(best))


def of_sentences(_options: Namespace, language: str) -> Figures:
    """For each word of the sentences, what both versions find."""
    sentences = [each.split("|") for each in SETTINGS["sentences"][language]]
    words, ways = sorted({word for each in sentences for word in each}), {}
    for version in VERSIONS:
        growing, shares = GrowingWords(analysis_of("none", version=version)), []
        index = growing.with_texts(["".join(each) for each in sentences])
        for word in words:
            right = {row for row, each in enumerate(sentences) if word in each}
            rows = index.parse(word).search(len(sentences))[1].tolist()
            common = len(right.intersection(rows))
            share = {"found": common / len(right), "precision": common / max(1, len(rows))}
            shares.append({**share, "first": bool(rows) and rows[0] in right})
        ways[f"version {version}"] = {name: fmean(of[name] for of in shares) for name in shares[0]}
    return {"sentences": len(sentences), "words": len(words), "ways": ways}


def collected(_options: Namespace, found: Found) -> Figures:
    """All figures, and those of earlier commits that are not measured again."""
    kinds: dict[str, Figures] = {kind: {} for kind, _ in found}
    for (kind, name), figures in found.items():
        kinds[kind] |= {name: figures} if figures else {}
    rows = [row["versions"] for row in kinds["collection"].values()]
    means = {version: {figure: fmean(row[version][figure] for row in rows) for figure in first}
             for version, first in rows[0].items()}  # fmt: skip
    earlier = json.loads((RESULTS / "words.json").read_text("utf-8"))["earlier"]
    return {**kinds, "means": means, "earlier": earlier}


if __name__ == "__main__":
    runs = [(kind, name) for kind in ("words", "sentences", "manuals") for name in SETTINGS[kind]]
    runs += [("collection", name) for name in indexes.SPLITS]
    EXPERIMENT.main(lambda _: [runs], figures_of, collected)
