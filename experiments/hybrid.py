"""Hybrid search beside dense and lexical search: nDCG@10 on collections, and exact names.

    python -m experiments.hybrid --data DATA

DATA has the collections named below in BEIR's layout. Two more are made from Debian's manual pages
and package lists, if the machine has them. Writes docs/results/hybrid.json and its page. Indexes
and figures in --work are used again. Takes half an hour on 2 cores.
"""

import random
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import swiftlet
from experiments.runs import kept
from export.quality import Collection
from loadtests.command_line import script_options
from loadtests.results import RESULTS, Figures, write
from swiftlet.demo import read_standard_library
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.evaluation.experiment import run_queries
from swiftlet.evaluation.machine import describe_machine
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.evaluation.significance import paired_t_test
from swiftlet.manifest import read_manifest
from swiftlet.search.request import DEFAULT_WEIGHT
from swiftlet.types import Document, Query

WORK = Path(__file__).parents[1] / "runs" / "hybrid"
SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
MOST_QUERIES, SAMPLED, NAMES, DOCUMENTS, CHARACTERS = 5000, 1500, 500, 8000, 6000
WEIGHTS = [0.5, 0.55, 0.6, 0.65, 0.7, DEFAULT_WEIGHT, 0.75, 0.8, 0.85, 0.9, 0.95]
# The arguments of `Searcher.search`, by the name of a system.
SYSTEMS: dict[str, dict[str, Any]] = SETTINGS["systems"] | {f"{w}": {"weight": w} for w in WEIGHTS}
ENCODERS = {"big": DEFAULT_ENCODER, "look-up": LOOKUP_QUERY_ENCODER}
MANUAL, MAN = Path("/usr/share/man"), "env MANWIDTH=100 LC_ALL=C.UTF-8 man --pager=cat"
MANUAL_PAGE = re.compile(r"(?ms)^NAME\n\s+.*? [-\u2013\u2014] (.*?)\n(?=\S)(.*)")
PACKAGE_LISTS, APT = Path("/var/lib/apt/lists"), "/usr/lib/apt/apt-helper cat-file"
PACKAGE = re.compile(r"(?m)^Description-en: (.*)\n((?: .*\n)+)")
CONSTANT = re.compile(r"\b(?:[A-Z][A-Z\d]*_[A-Z\d_]+|[A-Z]\w*(?:Error|Warning))\b")
DOTTED = re.compile(r"\w+(?:\.\w+)*")


def main() -> None:
    options = script_options(__doc__, data=Path, work=WORK, raw=RESULTS / "hybrid.json")
    print(write(options.raw, measure(options.data, options.work)))


def measure(data: Path, work: Path) -> Figures:
    work.mkdir(parents=True, exist_ok=True)
    measured = {n: figures_of(work / n, each, "nDCG@10") for n, each in collections(data).items()}
    rows = {name: figures for name, figures in measured.items() if figures}
    for row in rows.values():
        values = row.pop("values")
        row["p"] = paired_t_test(values["hybrid"], values["dense"]).p_value
        row["ndcg"] = {system: fmean(each.values()) for system, each in values.items()}
    for row in rows.values():
        others = [other["ndcg"] for other in rows.values() if other is not row]
        row["weight"] = max(WEIGHTS, key=lambda w: fmean(ndcg[f"{w}"] for ndcg in others))
        row["ndcg"]["left out"] = row["ndcg"][f"{row['weight']}"]
    names = figures_of(work / "names", exact_names, "success@1")
    found = names.pop("values")
    missed = [query for query, first in found["dense"].items() if not first]
    names["success"] = {system: fmean(each.values()) for system, each in found.items()}
    names["missed"] = [len(missed), sum(found["hybrid"][query] for query in missed)]
    return {
        "template": "experiments/hybrid.md.j2",
        "machine": describe_machine(["onnxruntime", "faiss-cpu", "tantivy", "ranx"], threads="all"),
        "weight": DEFAULT_WEIGHT,
        "weights": WEIGHTS,
        "rows": rows,
        "learnt": SETTINGS["learnt"]["names"],
        "means": {n: fmean(each["ndcg"][n] for each in rows.values()) for n in row["ndcg"]},
        "names": names,
    }


def collections(data: Path) -> dict[str, Callable[[], Collection]]:
    """What reads each collection, by name; on other machines, the last two have no documents."""
    read: dict[str, Callable[[], Collection]] = {
        n: partial(Collection.read, data / n, split) for n, split in SETTINGS["collections"].items()
    }
    # Those of gcloud, thousands, are not Debian's.
    pages = (page for page in MANUAL.glob("man[158]/*.gz") if "gcloud" not in page.name)
    read["manual pages"] = partial(made, MAN, pages, MANUAL_PAGE)
    lists = PACKAGE_LISTS.glob("*_main_i18n_Translation-en*")
    return read | {"package descriptions": partial(made, APT, lists, PACKAGE)}


def figures_of(index: Path, read: Callable[[], Collection], metric: str) -> Figures:
    """Sizes, and the metric by system and query; measured once and kept beside the index."""

    def measured() -> Figures:
        found = read()
        if not found.documents:
            return {}
        place, values = index_of(index, found), {}
        for system, fields in SYSTEMS.items():
            encoder = ENCODERS.get(system.partition(", ")[2], DEFAULT_QUERY_ENCODER)
            values[system] = values_of(place, encoder, found, metric, **fields)
        details = read_manifest(place).details
        sizes = {each: details[f"num_{each}"] for each in ("documents", "passages")}
        return {**sizes, "queries": len(values[system]), "values": values}

    figures: Figures = kept(index.with_name(f"{index.name}.json"), measured)
    print(f"{index.name}: {figures.get('queries', 'no')} queries", flush=True)
    return figures


def index_of(folder: Path, found: Collection, encoder: Path = DEFAULT_ENCODER) -> Path:
    """The index of a collection, which is built once."""
    place = folder / f"{len(found.documents)}"
    if not place.exists():
        swiftlet.build(found.documents, place, encoder=encoder)
    return place


def values_of(
    index: Path, encoder: Path, found: Collection, metric: str, **fields: Any
) -> dict[str, float]:
    """The metric by query; of many queries, some are drawn."""
    queries = found.queries
    if len(queries) > MOST_QUERIES:
        queries = random.Random(0).sample(queries, SAMPLED)
    qrels = {query.query_id: found.qrels[query.query_id] for query in queries}
    with swiftlet.open(index, encoder=encoder) as searcher:
        run = run_queries(SearcherRetriever(searcher, **fields), queries, top_k=10)
    return evaluate_per_query(run, qrels, [metric])[metric]


def made(command: str, files: Iterable[Path], pattern: re.Pattern[str]) -> Collection:
    """Pairs of a query and its document that `pattern` finds in what `command` shows of `files`."""
    found = {}
    for file in sorted(files):
        words = [*command.split(), str(file)]
        shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        for query, text in pattern.findall(re.sub(".\x08", "", shown)):
            # Packages of one program share the first paragraph; one of them is kept.
            found[text.partition("\n .\n")[0].strip()] = " ".join(query.split()), text[:CHARACTERS]
    pairs = sorted({query: text for query, text in found.values() if query.count(" ") > 2}.items())
    pairs = random.Random(0).sample(pairs, min(DOCUMENTS, len(pairs)))
    documents = [Document(f"{number}", text) for number, (_, text) in enumerate(pairs)]
    queries = [Query(f"{number}", query) for number, (query, _) in enumerate(pairs)]
    return Collection("", "", documents, queries, {q.query_id: {q.query_id: 1} for q in queries})


def exact_names() -> Collection:
    """Names of definitions, constants and errors that the text of one module alone has."""
    documents, texts_with = list(read_standard_library()), Counter[str]()
    modules: dict[str, str] = {}
    for document in documents:
        module = document.document_id
        dotted = [word.split(".") for word in DOTTED.findall(document.text)]
        texts_with.update(
            {".".join(w[a:b]) for w in dotted for b in range(len(w) + 1) for a in range(b)}
        )
        defined = CONSTANT.findall(document.text)
        for start, *_ in document.sections[1:]:
            if heading := DOTTED.match(document.text, start):
                name = heading[0].removeprefix(f"{module}.")
                defined += [heading[0], name, name.rpartition(".")[2]]
        modules |= dict.fromkeys(defined, module)
    unique = sorted(name for name in modules if texts_with[name] == 1)
    names = random.Random(0).sample(unique, min(NAMES, len(unique)))
    queries = [Query(name, name) for name in names]
    return Collection("", "", documents, queries, {name: {modules[name]: 1} for name in names})


if __name__ == "__main__":
    main()
