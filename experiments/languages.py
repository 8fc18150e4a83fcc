"""Search in many languages: stems by language, and encoders of English and of all languages.

    python -m experiments.languages --data FOLDER --encoders NAME,DIRECTORY

FOLDER has LibreOffice's help (MPL-2.0), which people have translated page by page, as
`apt-get download libreoffice-help-{en-us,de,fr,es,it,ru,zh-cn,ja}` and `dpkg-deb -x` give it:
usr/share/libreoffice/help. The title of a guide is a query, and the text of its page the document
that answers it. The pages that are no documents are written to work/other-pages.txt: an encoder
that `swiftlet export` has made with `--vocabulary` that file has their tokens alone. Takes four
minutes of two cores.
"""

import json
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from experiments.help_pages import LANGUAGES, collection
from measuring.experiment import Experiment, Found, Run, file_of, settings_beside
from measuring.results import Figures
from swiftlet import encoders
from swiftlet.corpora.languages import language_of
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.index.lexical.analysis import SEVERAL, analysis_of, words_of
from swiftlet.index.lexical.writer import GrowingWords
from swiftlet.types import Embeddings

SETTINGS = settings_beside(__file__)
DEPTH = 10
WEIGHTS = [round(step * 0.04, 2) for step in range(26)]
PAGES, WORDS = "pages", "words"
EXPERIMENT = Experiment("languages", __doc__, [], ["onnxruntime", "tantivy", "py3langid"], jobs=2)


def encoders_of(options: Namespace) -> dict[str, Path]:
    return {Path(each).name: Path(each) for each in options.encoders.split(",")}


def runs(options: Namespace) -> list[list[Run]]:
    return [[(PAGES,)], [(name,) for name in (WORDS, *encoders_of(options))]]


def figures_of(options: Namespace, name: str) -> Figures:
    if name == PAGES:
        return collection(options)
    found = json.loads(file_of(options.work, (PAGES,)).read_text("utf-8"))
    if name == WORDS:
        return of_words(found)
    return of_encoder(found, encoders.find(encoders_of(options)[name]))


def mean(values: Iterable[float]) -> float:
    return round(float(np.mean([*values])), 4)


def words_scores(language: str, documents: Sequence[str], queries: Sequence[str]) -> Embeddings:
    """The scores (queries, documents) of a search by words."""
    index = GrowingWords(analysis_of(language)).with_texts(documents)
    scores = np.zeros((len(queries), len(documents)), np.float32)
    for row, query in zip(scores, queries, strict=True):
        found, at = index.parse(query).search(len(documents))
        row[at] = found
    return scores


def quality(scores: Embeddings, rows: Sequence[int]) -> float:
    """The mean nDCG@10 of queries with one document each that answers them, at `rows`."""
    own = scores[np.arange(len(rows)), [*rows]]
    ranks = (scores > own[:, None]).sum(axis=1)
    return mean(np.where((ranks < DEPTH) & (own != 0), 1 / np.log2(2 + ranks), 0))


def of_words(found: Figures) -> Figures:
    """By language, and mixed: each document in the next language, a query in that of its answer."""
    figures: Figures = {}
    for several in [*([each] for each in LANGUAGES), *SETTINGS["mixtures"]]:
        of_row = [several[row % len(several)] for row in range(len(found["documents"]["en"]))]
        documents = [found["documents"][each][row] for row, each in enumerate(of_row)]
        asked = [(query, row) for each in several
                 for query, row in zip(found["queries"][each], found["rows"][each], strict=True)
                 if of_row[row] == each]  # fmt: skip
        queries, rows = ([*each] for each in zip(*asked, strict=True))
        figures[SEVERAL.join(several)] = {
            way: quality(words_scores(language, documents, queries), rows)
            for way, language in (("english", "english"), ("auto", words_of(several)))
        }
    for each in LANGUAGES:
        recognised = (language_of(text) == each for text in found["documents"][each])
        figures[each]["recognised"] = mean(recognised)
    return figures


def of_encoder(found: Figures, place: Path) -> Figures:
    """By meaning, of documents in the language of the query and in English; and with words."""
    sides = {role: OnnxEncoder.load(place, role=role) for role in ("query", "passage")}
    passages = {name: encode_texts(sides["passage"], texts, 1)
                for name, texts in found["documents"].items()}  # fmt: skip
    figures: Figures = {}
    for each in LANGUAGES:
        rows, queries = found["rows"][each], found["queries"][each]
        asked = encode_texts(sides["query"], queries, 1)
        own = asked @ passages[each].T
        words = words_scores(words_of([each]), found["documents"][each], queries)
        hybrid = [quality(w * own + (1 - w) * words, rows) for w in WEIGHTS]
        figures[each] = {"own": quality(own, rows), "hybrid": hybrid,
                         "english": quality(asked @ passages["en"].T, rows)}  # fmt: skip
    return figures


def collected(options: Namespace, found: Found) -> Figures:
    pages, measured = found[PAGES,], {name: found[name,] for name in encoders_of(options)}
    places = {name: encoders.find(place) for name, place in encoders_of(options).items()}
    return {
        "words": found[WORDS,],
        "weights": WEIGHTS,
        "documents": len(pages["documents"]["en"]),
        "queries": {each: len(rows) for each, rows in pages["rows"].items()},
        "encoders": measured,
        "smaller": [*measured][-1],
        "num_other_pages": pages["others"],
        "megabytes": {
            name: round((place / "model_int8.onnx").stat().st_size / 1e6, 1)
            for name, place in places.items()
        },
        "mean_hybrid": {
            name: [*map(mean, zip(*(row["hybrid"] for row in rows.values()), strict=True))]
            for name, rows in measured.items()
        },
    }


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected, encoders=encoders.DEFAULT_ENCODER.name)
