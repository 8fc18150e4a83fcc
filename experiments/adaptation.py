"""A query encoder that is adapted to a collection, as by `swiftlet index --adapt-queries`.

    python -m experiments.adaptation --data DATA

DATA and --work are as for experiments/hybrid.py; its indexes are used again, and finished figures
are kept there. Writes docs/results/adaptation.json and its page. On one core, the look-up encoder
takes half an hour, and two layers take some hours. First run experiments/tiers.py with `--students
narrower`: it trains the encoder with one layer.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter

import torch

from experiments import hybrid
from export.quality import Collection
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from measuring.runs import kept
from swiftlet.cli.models.adaptation import Adaptation
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.processors import available_processors
from swiftlet.progress import Silence

SEEDS = (0, 1, 2)
STUDENTS = {
    "look-up": LOOKUP_QUERY_ENCODER,
    "one layer": hybrid.WORK.with_name("tiers") / "encoders" / "one layer",
    "two layers": DEFAULT_QUERY_ENCODER,
}
# Collections that a student's settings were chosen with; the goals are not judged on them.
CHOSE = {"look-up": (), "one layer": (), "two layers": ("scifact", "stackfaq")}
# One layer does not ship, so fewer collections are enough.
FEWER = {"one layer": ("covid-qa", "wikiqa", "lisa")}
MODES = ("dense", "hybrid")
TIMED = {"teacher": "The teacher's embeddings", "training": "Stage 1: distillation"}


class Stages(Silence):
    """Keeps when each stage began."""

    def __init__(self) -> None:
        self.began: list[tuple[str, float]] = []

    def begin(self, name: str, total: int | None, done: int = 0) -> None:  # noqa: ARG002
        self.began.append((name, perf_counter()))

    def describe(self, text: str) -> None:
        pass


def main() -> None:
    raw = RESULTS / "adaptation.json"
    options = script_options(__doc__, data=Path, work=hybrid.WORK, raw=raw)
    print(write(options.raw, measure(options.data, options.work)))


def measure(data: Path, work: Path) -> Figures:
    unseen = {
        name: read
        for name, read in hybrid.collections(data).items()
        if name not in hybrid.SETTINGS["learnt"]["names"]
    }
    rows: dict[str, Figures] = {}
    for student, encoder in STUDENTS.items():
        for name in FEWER.get(student, unseen):
            measured = partial(figures_of, work / name, unseen[name], encoder)
            if row := kept(work / f"{name}, {student} adapted.json", measured):
                rows.setdefault(student, {})[name] = row
                print(name, student, row, flush=True)
    threads = f"{torch.get_num_threads()} to train, {available_processors()} to encode"
    packages = ["onnxruntime", "faiss-cpu", "torch"]
    return {
        "template": "experiments/adaptation.md.j2",
        "machine": describe_machine(packages, threads=threads),
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


def figures_of(folder: Path, read: Callable[[], Collection], student: Path) -> Figures:
    """The nDCG@10 before and after, and for each seed the seconds and the held-out figures."""
    found = read()
    if not found.documents:
        return {}
    index = hybrid.index_of(folder, found)

    def ndcg(encoder: Path) -> dict[str, float]:
        values = {m: hybrid.values_of(index, encoder, found, "nDCG@10", mode=m) for m in MODES}
        return {mode: fmean(each.values()) for mode, each in values.items()}

    encoders = {"big": DEFAULT_ENCODER, "two": DEFAULT_QUERY_ENCODER, "before": student}
    figures: Figures = {name: ndcg(encoder) for name, encoder in encoders.items()} | {"seeds": []}
    for seed in SEEDS:
        with TemporaryDirectory() as working:
            stages = Stages()
            adaptation = Adaptation(student, DEFAULT_ENCODER, progress=stages, seed=seed)
            adapted, held_out = adaptation.adapt(index, Path(working))
            seconds = {a: end - begin for (a, begin), (_, end) in pairwise(stages.began)}
            row = {"seconds": {name: seconds[stage] for name, stage in TIMED.items()}}
            figures["seeds"].append({**held_out, **row, "ndcg": ndcg(adapted)})
    return figures


if __name__ == "__main__":
    main()
