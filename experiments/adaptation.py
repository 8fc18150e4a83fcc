"""A query encoder that is adapted to a collection, as by `swiftlet index --adapt-queries`.

    python -m experiments.adaptation --data DATA

On one core, the look-up encoder takes half an hour, and two layers take some hours.
"""

from argparse import Namespace
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

from experiments.indexes import LEARNT, collections, folder_of, index_of, values_of
from export.encoder_directory import export_encoder
from measuring.experiment import Experiment, Found, Run, Stages, settings_beside
from measuring.results import Figures, means
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from training.adaptation.adaptation import Adaptation

STUDENTS = {"look-up": LOOKUP_QUERY_ENCODER, "two layers": DEFAULT_QUERY_ENCODER}
ENCODERS = {"big": DEFAULT_ENCODER, "two": DEFAULT_QUERY_ENCODER}
SETTINGS, CHOSE = (settings_beside(__file__)[name] for name in ("settings", "chose"))
MODES = ("dense", "hybrid")
TIMED = {"teacher": "The teacher's embeddings", "training": "Stage 1: distillation"}
NEW = ("scifact", "covid-qa", "wikiqa", "stackfaq", "lisa")
EXPERIMENT = Experiment("adaptation", __doc__, NEW, ["onnxruntime", "faiss-cpu", "torch"], seeds=3)


def runs(options: Namespace) -> list[list[Run]]:
    names = [name for name in collections(options.data) if name not in LEARNT]
    return [[(student, name) for student in STUDENTS for name in names]]


def figures_of(options: Namespace, student: str, name: str) -> Figures:
    """The nDCG@10 before and after, and for each seed the seconds and the held-out figures."""
    found = collections(options.data)[name]()
    if not found.documents:
        return {}
    index = index_of(folder_of(options, name), found)

    def ndcg(encoder: Path) -> dict[str, float]:
        return means({mode: values_of(index, encoder, found, mode=mode) for mode in MODES})

    encoders = ENCODERS | {"before": STUDENTS[student]}
    figures: Figures = {name: ndcg(encoder) for name, encoder in encoders.items()} | {"seeds": []}
    for seed in range(options.seeds):
        with TemporaryDirectory() as working:
            stages = Stages()
            given: dict[str, Any] = {"progress": stages, "seed": seed, "settings": SETTINGS}
            adaptation = Adaptation(STUDENTS[student], DEFAULT_ENCODER, export_encoder, **given)
            adapted, held_out = adaptation.adapt(index, Path(working))
            seconds = {a: end - begin for (a, begin), (_, end) in pairwise(stages.began)}
            row = {"seconds": {name: seconds[stage] for name, stage in TIMED.items()}}
            figures["seeds"].append({**held_out, **row, "ndcg": ndcg(adapted)})
    return figures


def collected(_options: Namespace, found: Found) -> Figures:
    rows: dict[str, Figures] = {student: {} for student in STUDENTS}
    for (student, name), row in found.items():
        if row:
            rows[student][name] = row
    return {
        "rows": rows,
        "chose": CHOSE,
        "means": {
            student: summary({n: row for n, row in each.items() if n not in CHOSE[student]})
            for student, each in rows.items()
        },
    }


def summary(rows: Mapping[str, Figures]) -> Figures:
    """Of these collections, the shares of the document encoder's nDCG@10, and hybrid search."""
    adapted = {
        name: {mode: fmean(seed["ndcg"][mode] for seed in row["seeds"]) for mode in MODES}
        for name, row in rows.items()
    }
    before = [row["before"]["dense"] / row["big"]["dense"] for row in rows.values()]
    after = {name: adapted[name]["dense"] / row["big"]["dense"] for name, row in rows.items()}
    return {
        "count": len(rows),
        "before": fmean(before),
        "after": fmean(after.values()),
        "median_before": median(before),
        "median_after": median(after.values()),
        "hardest": min(after, key=after.__getitem__),
        "least": min(after.values()),
        "hybrid_before": fmean(row["before"]["hybrid"] for row in rows.values()),
        "hybrid_after": fmean(each["hybrid"] for each in adapted.values()),
        "above_two": [
            name for name, row in rows.items() if adapted[name]["dense"] > row["two"]["dense"]
        ],
        "worse": {
            mode: [name for name, row in rows.items() if adapted[name][mode] < row["before"][mode]]
            for mode in MODES
        },
    }


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected)
