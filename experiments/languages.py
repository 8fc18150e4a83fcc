"""Search in many languages: stems by language, and encoders of English and of all languages.

    python -m experiments.languages --help-pages FOLDER --encoders NAME,DIRECTORY

FOLDER has LibreOffice's help (MPL-2.0), which people have translated page by page, as
`apt-get download libreoffice-help-{en-us,de,fr,es,it,ru,zh-cn,ja}` and `dpkg-deb -x` give it:
usr/share/libreoffice/help. The title of a guide is a query, and the text of its page the document
that answers it. Takes three minutes of one core.
"""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from lxml import html  # type: ignore[import-untyped]

from measuring.command_line import existing, script_options
from measuring.experiment import RUNS, kept
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from swiftlet import encoders
from swiftlet.corpora.languages import language_of
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.index.lexical.analysis import SEVERAL, analysis_of, words_of
from swiftlet.index.lexical.writer import GrowingWords
from swiftlet.processors import available_processors
from swiftlet.types import Embeddings

FOLDERS = {"en": "en-US", "zh": "zh-CN"}
LANGUAGES = ("en", "de", "fr", "es", "it", "ru", "zh", "ja")
MIXTURES = (("en", "de"), ("en", "de", "ja"), ("en", "de", "fr", "es", "it", "ru"))
CHARACTERS, OF_IDEOGRAPHS, LEAST = 300, 120, 200
KINDS = ("guide", "01")
DEPTH = 10
TRANSLATED = 0.7
"""The least share of paragraphs that differ from the English page."""
WEIGHTS = [round(step * 0.04, 2) for step in range(26)]

Page = tuple[str, Mapping[str, str]]


def pages_of(folder: Path) -> dict[str, Page]:
    """The title of each page in a language, and its paragraphs by their names."""
    found: dict[str, Page] = {}
    for path in sorted(each for kind in KINDS for each in folder.glob(f"*/{kind}/*.html")):
        tree = html.fromstring(path.read_bytes().decode("utf-8"))
        for hidden in tree.xpath("//*[@hidden]"):
            hidden.drop_tree()
        blocks = tree.xpath("//div[@id='DisplayArea']//*[self::p or self::h2 or self::h3][@id]")
        texts = {each.get("id"): " ".join(each.text_content().split()) for each in blocks}
        if titles := tree.xpath("//h1"):
            title = " ".join(titles[0].text_content().split())
            found[f"{path.relative_to(folder)}"] = title, {k: v for k, v in texts.items() if v}
    return found


class Collection:
    """The same documents and queries in each language; `rows` has the documents that answer."""

    def __init__(self, folder: Path) -> None:
        pages = {each: pages_of(folder / FOLDERS.get(each, each) / "text") for each in LANGUAGES}
        names = [
            name for name in pages["en"]
            if all(self._is_good(pages["en"][name], pages[each].get(name), each)
                    for each in LANGUAGES)
        ]  # fmt: skip
        self.documents, self.queries, self.rows = {}, {}, {}
        for each in LANGUAGES:
            titles = [pages[each][name][0] for name in names]
            most = OF_IDEOGRAPHS if each in {"zh", "ja"} else CHARACTERS
            texts = (" ".join(pages[each][name][1].values()) for name in names)
            self.documents[each], times = [text[:most] for text in texts], Counter(titles)
            self.rows[each] = [
                row for row, name in enumerate(names)
                if "/guide/" in name and times[titles[row]] == 1
                and (each == "en" or titles[row] != pages["en"][name][0])
            ]  # fmt: skip
            self.queries[each] = [titles[row] for row in self.rows[each]]

    @staticmethod
    def _is_good(english: Page, page: Page | None, language: str) -> bool:
        if page is None or len(" ".join(page[1].values())) < LEAST:
            return False
        same = sum(english[1].get(name) == text for name, text in page[1].items())
        return language == "en" or same <= (1 - TRANSLATED) * len(page[1])


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


def of_words(found: Collection) -> Figures:
    """By language, and mixed: each document in the next language, a query in that of its answer."""
    figures: Figures = {}
    for each in LANGUAGES:
        documents, queries, rows = found.documents[each], found.queries[each], found.rows[each]
        figures[each] = {
            way: quality(words_scores(language, documents, queries), rows)
            for way, language in (("english", "english"), ("auto", words_of([each])))
        }
        figures[each]["recognised"] = mean(language_of(text) == each for text in documents)
    for several in MIXTURES:
        of_row = [several[row % len(several)] for row in range(len(found.documents["en"]))]
        documents = [found.documents[each][row] for row, each in enumerate(of_row)]
        asked = [(query, row) for each in several
                 for query, row in zip(found.queries[each], found.rows[each], strict=True)
                 if of_row[row] == each]  # fmt: skip
        figures[SEVERAL.join(several)] = {
            way: quality(
                words_scores(language, documents, [query for query, _ in asked]),
                [row for _, row in asked],
            )
            for way, language in (("english", "english"), ("auto", words_of(several)))
        }
    return figures


def of_encoder(found: Collection, place: Path) -> Figures:
    """By meaning, of documents in the language of the query and in English; and with words."""
    sides = {role: OnnxEncoder.load(place, role=role) for role in ("query", "passage")}
    threads = available_processors()
    passages = {each: encode_texts(sides["passage"], found.documents[each], threads)
                for each in LANGUAGES}  # fmt: skip
    figures: Figures = {}
    for each in LANGUAGES:
        rows, queries = found.rows[each], found.queries[each]
        asked = encode_texts(sides["query"], queries, threads)
        own = asked @ passages[each].T
        words = words_scores(words_of([each]), found.documents[each], queries)
        hybrid = [quality(w * own + (1 - w) * words, rows) for w in WEIGHTS]
        figures[each] = {"own": quality(own, rows), "hybrid": hybrid,
                         "english": quality(asked @ passages["en"].T, rows)}  # fmt: skip
    return figures


def places(names: str) -> list[Path]:
    return [Path(each) for each in names.split(",")]


def main() -> None:
    options = script_options(
        __doc__, help_pages=existing, encoders=places, raw=RESULTS / "languages.json"
    )
    work = RUNS / "languages"
    work.mkdir(parents=True, exist_ok=True)
    write(options.raw, figures_of(options, work))


def figures_of(options: Namespace, work: Path) -> Figures:
    collection = cache(lambda: Collection(options.help_pages))

    def measured(place: Path) -> Figures:
        found = encoders.find(place)
        figures: Figures = kept(
            work / f"{place.name}.json", lambda: of_encoder(collection(), found)
        )
        return figures

    measured_encoders = {place.name: measured(place) for place in options.encoders}
    return {
        "template": "experiments/languages.md.j2",
        "machine": describe_machine(["onnxruntime", "tantivy", "py3langid"], threads="all"),
        "words": kept(work / "words.json", lambda: of_words(collection())),
        "weights": WEIGHTS,
        "documents": len(collection().documents["en"]),
        "queries": {each: len(rows) for each, rows in collection().rows.items()},
        "encoders": measured_encoders,
        "mean_hybrid": {
            name: [
                mean(scores)
                for scores in zip(*(row["hybrid"] for row in rows.values()), strict=True)
            ]
            for name, rows in measured_encoders.items()
        },
    }


if __name__ == "__main__":
    main()
