"""Hybrid search beside dense and lexical search: nDCG@10 on collections, and exact names.

    python -m experiments.hybrid --data DATA

DATA has the collections of indexes.toml in BEIR's layout. Two more are made from Debian's manual
pages and package lists, if the machine has them. Takes half an hour on 2 cores.
"""

import random
import re
from argparse import Namespace
from collections import Counter
from itertools import islice
from statistics import fmean
from typing import Any

from experiments import indexes
from experiments.indexes import METRIC, index_of, values_of
from export.quality import Collection
from measuring.experiment import Experiment, Found, settings_beside
from measuring.results import Figures, means
from swiftlet.demo import read_standard_library
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.evaluation.significance import paired_t_test
from swiftlet.manifest import read_manifest
from swiftlet.search.request import DEFAULT_WEIGHT
from swiftlet.types import Query

EXPERIMENT = Experiment(
    "hybrid", __doc__, [*indexes.SPLITS], ["onnxruntime", "faiss-cpu", "tantivy"]
)
SETTINGS = settings_beside(__file__)
WEIGHTS: list[float] = sorted({*SETTINGS["weights"], DEFAULT_WEIGHT})
# The arguments of `Searcher.search`, by the name of a system.
SYSTEMS: dict[str, dict[str, Any]] = SETTINGS["systems"] | {f"{w}": {"weight": w} for w in WEIGHTS}
ENCODERS = {"big": DEFAULT_ENCODER, "look-up": LOOKUP_QUERY_ENCODER}
NAMES = "names"
CONSTANT = re.compile(r"\b(?:[A-Z][A-Z\d]*_[A-Z\d_]+|[A-Z]\w*(?:Error|Warning))\b")
DOTTED = re.compile(r"\w+(?:\.\w+)*")


def figures_of(options: Namespace, name: str) -> Figures:
    """Sizes, and the metric by system and query; nothing of a collection without documents."""
    found = exact_names() if name == NAMES else indexes.collections(options.data)[name]()
    if not found.documents:
        return {}
    place, values = index_of(indexes.folder_of(options, name), found), {}
    for system, fields in SYSTEMS.items():
        encoder = ENCODERS.get(system.partition(", ")[2], DEFAULT_QUERY_ENCODER)
        metric = "success@1" if name == NAMES else METRIC
        values[system] = values_of(place, encoder, found, metric, **fields)
    details = read_manifest(place).details
    sizes = {each: details[f"num_{each}"] for each in ("documents", "passages")}
    return {**sizes, "queries": len(values[system]), "values": values}


def collected(_options: Namespace, found: Found) -> Figures:
    rows = {name: {**row} for (name,), row in found.items() if row and name != NAMES}
    for row in rows.values():
        values = row.pop("values")
        row["p"] = paired_t_test(values["hybrid"], values["dense"]).p_value
        row["ndcg"] = means(values)
    for row in rows.values():
        others = [other["ndcg"] for other in rows.values() if other is not row]
        row["weight"] = max(WEIGHTS, key=lambda w: fmean(ndcg[f"{w}"] for ndcg in others))
        row["ndcg"]["left out"] = row["ndcg"][f"{row['weight']}"]
    names = {**found[NAMES,]}
    by_system = names.pop("values")
    missed = [query for query, first in by_system["dense"].items() if not first]
    names["success"] = means(by_system)
    names["missed"] = [len(missed), sum(by_system["hybrid"][query] for query in missed)]
    return {
        "weight": DEFAULT_WEIGHT,
        "weights": WEIGHTS,
        "rows": rows,
        "learnt": indexes.LEARNT,
        "means": {n: fmean(each["ndcg"][n] for each in rows.values()) for n in row["ndcg"]},
        "names": names,
    }


def exact_names() -> Collection:
    """Names of definitions, constants and errors that the text of one module alone has."""
    documents = [*islice(read_standard_library(), SETTINGS["modules"])]
    texts_with = Counter[str]()
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
    names = random.Random(0).sample(unique, min(SETTINGS["names"], len(unique)))
    queries = [Query(name, name) for name in names]
    return Collection("", "", documents, queries, {name: {modules[name]: 1} for name in names})


if __name__ == "__main__":
    names = [*indexes.SPLITS, indexes.MANUAL_PAGES, indexes.PACKAGES, NAMES]
    EXPERIMENT.main(lambda _: [[(name,) for name in names]], figures_of, collected)
