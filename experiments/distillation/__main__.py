"""Query encoders of one, two and three layers and without a transformer, and what they keep.

    python -m experiments.distillation --data DATA

Needs the extra `dev`, for the torch weights, and WordNet (Debian's package wordnet-base). Takes
some hours.
"""

from argparse import Namespace
from pathlib import Path
from statistics import fmean

from experiments.distillation import texts
from experiments.distillation.students import STUDENTS, TEACHER, figures_of, long_run, prepare
from experiments.pairs import query_latencies
from measuring.experiment import Experiment, Found, Run
from measuring.plots import QualityPoint, plot_quality, save_figure
from measuring.results import Figures, means
from swiftlet.encoders import DEFAULT_ENCODER

EXPERIMENT = Experiment(
    "distillation", __doc__, texts.collections(),
    ["torch", "transformers", "sentence-transformers", "onnxruntime", "faiss-cpu"], jobs=2,
)  # fmt: skip


def runs(options: Namespace, *students: str) -> list[list[Run]]:
    """Those of all students, or of these; each goes on from its long run."""
    prepare(options)
    names = students or (*STUDENTS,)
    return [[(TEACHER,)], [(long_run(name),) for name in names], [(name,) for name in names]]


def shares(found: Found, name: str, precision: str = "fp32") -> Figures:
    """The nDCG@10 of a run as a share of the teacher's, by collection, and their mean."""
    of_teacher, own = means(found[TEACHER,]["fp32"]), means(found[name,][precision])
    kept = {collection: own[collection] / ndcg for collection, ndcg in of_teacher.items()}
    return {"kept": kept, "mean": fmean(kept.values())}


def collected(options: Namespace, found: Found) -> Figures:
    encoders = {name: options.work / "encoders" / name for name in STUDENTS}
    ms = query_latencies(encoders | {TEACHER: DEFAULT_ENCODER}, options.work / "latencies.json")
    students, int8 = [], []
    for name, wanted in STUDENTS.items():
        row = {"final": name, "wanted": wanted, "ms": None}
        students += [
            {"name": long_run(name), **row, **shares(found, long_run(name))},
            {"name": name, **row, **shares(found, name)},
            {"name": f"{name} int8", **row, **shares(found, name, "int8"), "ms": ms[name]},
        ]
        before, after = (means(found[name,][each]) for each in ("fp32", "int8"))
        change = max((after[test] - before[test] for test in before), key=abs)
        int8.append({"name": f"{name} int8", "ndcg_change": change, **found[name,]["cosines"]})
    of_teacher = {"ndcg": means(found[TEACHER,]["fp32"]), "ms": ms[TEACHER]}
    rows = {"students": students, "int8": int8, "num_int8_queries": texts.NUM_COMPARED}
    return {"teacher": of_teacher, **rows}


def draw(_work: Path, figures: Figures, folder: Path) -> None:
    """Draw kept share against latency."""
    points = [QualityPoint("the teacher in int8", figures["teacher"]["ms"], 1.0)]
    points += [
        QualityPoint(student["final"], student["ms"], student["mean"], "distilled")
        for student in figures["students"]
        if student["ms"] is not None
    ]
    latency = "ms a query of 10 tokens, int8, one thread"
    figure = plot_quality(points, quality_label="kept share of nDCG@10", latency_label=latency)
    save_figure(figure, folder / "distillation-latency.png")


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected, draw, wordnet=texts.WORDNET_FOLDER)
