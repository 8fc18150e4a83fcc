"""Search by words before and after version 2 of the analysis: collections, languages, scripts.

    python -m experiments.words --data DATA

DATA has the collections of indexes.toml in BEIR's layout; nothing is encoded. With the packages
simplemma (forms of words) and budoux (borders of words), the page has more figures. Takes ten
minutes on 2 cores.
"""

import random
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import process_time
from unicodedata import normalize

from experiments import indexes
from experiments.indexes import METRIC
from experiments.word_forms import bare, of_sentences, of_stems
from measuring.experiment import Experiment, Found, settings_beside
from measuring.results import Figures, alternating
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.evaluation.metrics import evaluate
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.lexical.analysis import VERSION, analysis_of
from swiftlet.index.lexical.index import LexicalIndex
from swiftlet.index.lexical.writer import GrowingWords, write_lexical_index

PACKAGES = ["tantivy", "ranx", "simplemma", "budoux"]
EXPERIMENT = Experiment("words", __doc__, [*indexes.SPLITS], PACKAGES)
SETTINGS = settings_beside(__file__)
VERSIONS, ROUNDS, RECALL, DEEP = (1, VERSION), 3, "recall@100", 100


FORMS: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    "query without accents": (str, bare),
    "passage without accents": (bare, str),
    "passage decomposed": (lambda word: normalize("NFD", word), str),
    "passage in capital letters": (str.upper, str),
    "passage with a soft hyphen": (lambda word: f"{word[:2]}\u00ad{word[2:]}", str),
}
"""What a passage and a query have of a word."""


def figures_of(options: Namespace, kind: str, name: str) -> Figures:
    return {"collection": of_collection, "words": of_words, "stems": of_stems,
            "sentences": of_sentences}[kind](options, name)  # fmt: skip


def of_collection(options: Namespace, name: str) -> Figures:
    """Quality and processor time of both versions; nothing of a collection without documents."""
    found = indexes.collections(options.data)[name]()
    if not found.documents:
        return {}
    splitter = BuildSettings().splitter(OnnxEncoder.load(DEFAULT_ENCODER, role="passage"))
    split = [(document, each) for document in found.documents for each in splitter.split(document)]
    texts = [(encoder_text(document.title, each.text), ()) for document, each in split]
    queries = [*found.queries]
    if len(queries) > indexes.MOST_QUERIES:
        queries = random.Random(0).sample(queries, indexes.SAMPLED)
    qrels = {query.query_id: found.qrels[query.query_id] for query in queries}
    rounds: list[tuple[int, Figures]] = []
    for version in alternating(VERSIONS, ROUNDS):
        with TemporaryDirectory() as folder:
            place, began = Path(folder, "words"), process_time()
            write_lexical_index(place, texts, "english", version=version)
            index, built, run = LexicalIndex.open(place, "english", version), process_time(), {}
            for query in queries:
                best: dict[str, float] = {}
                for score, row in zip(*index.parse(query.text).search(4 * DEEP), strict=True):
                    best.setdefault(split[row][0].document_id, float(score))
                run[query.query_id] = dict([*best.items()][:DEEP])
            seconds = {"indexing": built - began, "searching": process_time() - built}
            rounds.append((version, {**seconds, **evaluate(run, qrels, [METRIC, RECALL])}))
    least = {f"{version}": {figure: min(each[figure] for of, each in rounds if of == version)
                            for figure in rounds[0][1]} for version in VERSIONS}  # fmt: skip
    return {"passages": len(split), "queries": len(queries), "versions": least}


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


def collected(_options: Namespace, found: Found) -> Figures:
    kinds: dict[str, Figures] = {}
    for (kind, name), figures in found.items():
        kinds.setdefault(kind, {})
        if figures:
            kinds[kind][name] = figures
    versions = {
        f"{version}": {
            figure: fmean(
                row["versions"][f"{version}"][figure] for row in kinds["collection"].values()
            )
            for figure in (METRIC, RECALL, "indexing", "searching")
        }
        for version in VERSIONS
    }
    return {**kinds, "means": versions}


def main() -> None:
    runs = [("collection", name) for name in indexes.SPLITS]
    runs += [("words", name) for name in SETTINGS["words"]]
    runs += [("stems", name) for name in SETTINGS["dictionaries"]]
    runs += [("sentences", name) for name in SETTINGS["sentences"]]
    EXPERIMENT.main(lambda _: [runs], figures_of, collected)


if __name__ == "__main__":
    main()
