"""The collections that experiments search, their indexes, and the quality of searches."""

import random
import re
import subprocess
from argparse import Namespace
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import swiftlet
from export.quality import Collection
from measuring.experiment import settings_beside
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.evaluation.experiment import run_queries
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.types import Document, Query

SETTINGS = settings_beside(__file__)
SPLITS: dict[str, str] = SETTINGS["collections"]
LEARNT: list[str] = SETTINGS["learnt"]["names"]
MANUAL_PAGES, PACKAGES = "manual pages", "package descriptions"
METRIC = "nDCG@10"
MOST_QUERIES, SAMPLED, CHARACTERS = 5000, 1500, 6000
_MAN = "env MANWIDTH=100 LC_ALL=C.UTF-8 man --pager=cat"
_MANUAL_PAGE = re.compile(r"(?ms)^NAME\n\s+.*? [-\u2013\u2014] (.*?)\n(?=\S)(.*)")
_APT = "/usr/lib/apt/apt-helper cat-file"
_PACKAGE = re.compile(r"(?m)^Description-en: (.*)\n((?: .*\n)+)")


def collections(data: Path) -> dict[str, Callable[[], Collection]]:
    """What reads each collection, by name; on other machines, the last two have no documents."""
    read: dict[str, Callable[[], Collection]] = {
        name: partial(Collection.read, data / name, split) for name, split in SPLITS.items()
    }
    machine = SETTINGS["machine"]
    # Those of gcloud, thousands, are not Debian's.
    pages = (p for p in Path(machine["manual"]).glob("man[158]/*.gz") if "gcloud" not in p.name)
    read[MANUAL_PAGES] = partial(made, _MAN, pages, _MANUAL_PAGE)
    lists = Path(machine["package_lists"]).glob("*_main_i18n_Translation-en*")
    return read | {PACKAGES: partial(made, machine.get("show", _APT), lists, _PACKAGE)}


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
    pairs = random.Random(0).sample(pairs, min(SETTINGS["machine"]["documents"], len(pairs)))
    documents = [Document(f"{number}", text) for number, (_, text) in enumerate(pairs)]
    queries = [Query(f"{number}", query) for number, (query, _) in enumerate(pairs)]
    return Collection("", "", documents, queries, {q.query_id: {q.query_id: 1} for q in queries})


def written(found: Collection, folder: Path, most: int) -> dict[str, str]:
    """Write documents as files; the id of each document by the name of its file."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {}
    for number, document in enumerate([*found.documents][:most], sum(1 for _ in folder.iterdir())):
        heading = f"# {document.title}\n\n" if document.title else ""
        Path(folder, f"{number:05}.md").write_text(heading + document.text, "utf-8")
        names[f"{number:05}.md"] = document.document_id
    return names


def folder_of(options: Namespace, name: str = "") -> Path:
    """Where all experiments keep the indexes of a collection: beside their runs."""
    return Path(options.work).with_name("indexes") / name


def index_of(folder: Path, found: Collection, encoder: Path = DEFAULT_ENCODER) -> Path:
    """The index of a collection in a folder, which is built once."""
    place = folder / f"{len(found.documents)}"
    if not place.exists():
        swiftlet.build(found.documents, place, encoder=encoder)
    return place


def values_of(
    index: Path, encoder: Path | None, found: Collection, metric: str = METRIC, **fields: Any
) -> dict[str, float]:
    """The metric by query; of many queries, some are drawn."""
    queries = [*found.queries]
    if len(queries) > MOST_QUERIES:
        queries = random.Random(0).sample(queries, SAMPLED)
    qrels = {query.query_id: found.qrels[query.query_id] for query in queries}
    with swiftlet.open(index, encoder=encoder) as searcher:
        run = run_queries(SearcherRetriever(searcher, **fields), queries, top_k=10)
    return evaluate_per_query(run, qrels, [metric])[metric]
