"""The black boxes, their collections and their indexes, and logs of queries."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fcntl import LOCK_EX, flock
from pathlib import Path
from random import Random
from typing import Any

import swiftlet
from experiments.indexes import SPLITS
from export.quality import Collection
from measuring.experiment import settings_beside
from swiftlet.corpora.collections import read_queries
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.types import Document, Qrels, Query

SETTINGS = settings_beside(__file__)
STUDENTS: dict[str, str] = SETTINGS["students"]
COLLECTIONS: dict[str, dict[str, Any]] = SETTINGS["collections"]
LEARNT: dict[str, dict[str, Any]] = SETTINGS["learnt"]
LOG = "web-queries"


def encoder_of(options: Namespace, box: str) -> Path:
    """The black box."""
    return DEFAULT_ENCODER if box == DEFAULT_ENCODER.name else Path(options.boxes) / box


def collection(options: Namespace, name: str) -> Collection:
    """Some queries of the judged folders, their documents, and others up to a number."""
    settings = COLLECTIONS[name]
    judged, others, queries, qrels = list[Document](), list[Document](), list[Query](), Qrels()
    for folder in settings["folders"]:
        found = Collection.read(options.data / folder, SPLITS[folder])
        asked = found.queries if folder in settings["judged"] else []
        wanted = {each for query in asked for each in found.qrels[query.query_id]}
        for each in found.documents:
            among = judged if each.document_id in wanted else others
            among.append(replace(each, document_id=f"{folder} {each.document_id}"))
        for query in asked:
            queries.append(Query(f"{folder} {query.query_id}", query.text))
            grades = found.qrels[query.query_id]
            qrels[queries[-1].query_id] = {f"{folder} {each}": g for each, g in grades.items()}
    queries = Random(0).sample(queries, min(SETTINGS["queries"], len(queries)))
    documents = (judged + others)[: settings.get("documents")]
    return Collection(
        name, "", documents, queries, {each.query_id: qrels[each.query_id] for each in queries}
    )


def index_of(options: Namespace, box: str, name: str, found: Collection) -> Path:
    """The index whose vectors a black box made."""
    place: Path = options.work / "indexes" / f"{box}-{name}"
    with alone(place):
        if not place.exists():
            encoder = encoder_of(options, box)
            swiftlet.build(found.documents, place, encoder=encoder, **COLLECTIONS[name]["index"])
    return place


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Runs at the same time wait here for the first one, which makes what is at a place."""
    place.parent.mkdir(exist_ok=True, parents=True)
    with place.with_name(f"{place.name}.lock").open("w") as file:
        flock(file, LOCK_EX)
        yield


def log_of(options: Namespace, count: int) -> Path:
    """A file of so many queries, of which a tenth is held out."""
    path: Path = options.work / f"queries-{count}.txt"
    with alone(path):
        if not path.exists():
            texts = [" ".join(each.text.split()) for each in read_queries(options.data / LOG)]
            path.write_text("\n".join(Random(0).sample(texts, min(count, len(texts)))), "utf-8")
    return path
