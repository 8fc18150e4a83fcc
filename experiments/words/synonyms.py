"""Synonyms in searches by words: names that documents do not have, and lists of a subject.

    python -m experiments.words.synonyms --data DATA

DATA has the collections in BEIR's layout. Names are those of experiments/hybrid.py that are one
word. Each gets an alias that no document has. Takes a few minutes.
"""

import random
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import swiftlet
from experiments.hybrid import exact_names
from experiments.indexes import collections, folder_of, index_of, values_of
from export.quality import Collection
from measuring.experiment import Experiment, Found, settings_beside
from measuring.results import Figures, means
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.evaluation.significance import paired_t_test
from swiftlet.index.lexical.analysis import analysis_in
from swiftlet.index.lexical.words import words_in
from swiftlet.manifest import read_manifest
from swiftlet.types import Query

SETTINGS = settings_beside(__file__)
EXPERIMENT = Experiment("synonyms", __doc__, [*SETTINGS["collections"]], ["tantivy"])
NAMES = "names"
ENCODER = LOOKUP_QUERY_ENCODER  # no search here is by meaning


def set_lines(index: Path, lines: Sequence[str]) -> int:
    with TemporaryDirectory() as folder:
        file = Path(folder, "synonyms.txt")
        file.write_text("\n".join(lines), "utf-8")
        return swiftlet.set_synonyms(index, file)


def figures_of(options: Namespace, name: str) -> Figures:
    if name == NAMES:
        return of_names(options)
    found = collections(options.data)[name]()
    drawn = random.Random(0).sample(found.queries, min(SETTINGS["queries"], len(found.queries)))
    index, lines = index_at(options, found), SETTINGS["lists"][SETTINGS["collections"][name]]
    analysis = analysis_in(read_manifest(index).details)
    having = {*analysis.words(" ".join(lines))}
    some = [each for each in drawn if having & {*analysis.words(each.text)}]
    values = {}
    for side in ("before", "after"):
        set_lines(index, ["# none"] if side == "before" else lines)
        values[side] = values_of(index, ENCODER, replace(found, queries=some), mode="lexical")
    return {"drawn": len(drawn), "values": values}


def of_names(options: Namespace) -> Figures:
    found = exact_names()
    names = [each.text for each in found.queries if len([*words_in(each.text)]) == 1]
    aliases = {name: f"alias{number}" for number, name in enumerate(names)}
    asked = {
        "name": [Query(name, name) for name in names],
        "alias": [Query(name, alias) for name, alias in aliases.items()],
    }
    index, values = index_at(options, found), {}
    for side, lines in (
        ("before", ["# none"]),
        ("after", [f"{alias}, {name}" for name, alias in aliases.items()]),
    ):
        set_lines(index, lines)
        for which, queries in asked.items():
            of_side = replace(found, queries=queries)
            values[f"{which}, {side}"] = values_of(
                index, ENCODER, of_side, "success@1", mode="lexical"
            )
    return {"drawn": len(names), "values": values}


def index_at(options: Namespace, found: Collection) -> Path:
    """An index of this experiment alone, since it is changed."""
    return index_of(folder_of(options, f"{found.name or NAMES}, synonyms"), found, ENCODER)


def collected(_: Namespace, found: Found) -> Figures:
    rows = {name: {**row} for (name,), row in found.items()}
    for name, row in rows.items():
        values = row.pop("values")
        row |= {"queries": len(next(iter(values.values()))), **means(values)}
        if name != NAMES:
            row["p"] = paired_t_test(values["after"], values["before"]).p_value
    return {"names": rows.pop(NAMES), "rows": rows}


if __name__ == "__main__":
    EXPERIMENT.main(
        lambda _: [[(name,) for name in (NAMES, *SETTINGS["collections"])]], figures_of, collected
    )
