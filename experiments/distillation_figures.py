"""The raw figures and the plots of docs/results/distillation.md, from finished runs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from experiments import distillation_runs as distilled
from experiments.distillation_data import Workplace
from experiments.distillation_runs import Variant
from measuring.machine import describe_machine
from measuring.quality_plot import QualityPoint, plot_quality
from measuring.results import Figures
from measuring.runs import Processes, query_latencies
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.evaluation.plots.figures import save_figure

PACKAGES = ["torch", "transformers", "sentence-transformers", "onnxruntime", "faiss-cpu", "ranx"]


def collect(
    workplace: Workplace,
    processes: Processes,
    path: Sequence[Variant],
    layers: Sequence[Variant],
    finals: Mapping[Variant, float],
) -> Figures:
    """All figures of the page; `finals` have the share of the teacher's nDCG@10 to keep."""
    exported = [
        final for final in finals if distilled.is_judged(workplace, f"{final.name} int8", "tests")
    ]
    directories = {final.name: workplace.exported(final.name) for final in exported}
    latencies = query_latencies(
        directories | {distilled.TEACHER: DEFAULT_ENCODER}, workplace.exported("latencies.json")
    )
    return {
        "template": "experiments/distillation.md.j2",
        "machine": describe_machine(PACKAGES, threads=str(processes)),
        "teacher": {
            "ndcg": distilled.mean_ndcg(workplace, distilled.TEACHER, "tests"),
            "ms": latencies[distilled.TEACHER],
        },
        "students": [
            figures
            for final, wanted in finals.items()
            for figures in _students(workplace, final, wanted, latencies)
        ],
        "num_int8_queries": distilled.NUM_QUERIES,
        "int8": _int8(workplace, exported),
        "layers": _layers(workplace, layers),
        "path": [_run(workplace, run) for run in path if distilled.is_judged(workplace, run.name)],
    }


def _students(
    workplace: Workplace, final: Variant, wanted: float, latencies: Mapping[str, float]
) -> Iterable[Figures]:
    for name in (final.after, final.name, *(f"{final.name} {each}" for each in final.quantised)):
        if distilled.is_judged(workplace, name, "tests"):
            shipped = name.endswith(" int8")
            yield {"name": name, "final": final.name, "wanted": wanted} | {
                **_kept(workplace, name, "tests"),
                "ms": latencies[final.name] if shipped else None,
            }


def _kept(workplace: Workplace, name: str, kind: str) -> Figures:
    shares = distilled.kept_shares(workplace, name, kind)
    return {"kept": shares, "mean": fmean(shares.values())}


def _int8(workplace: Workplace, exported: Sequence[Variant]) -> list[Figures]:
    rows = []
    for final, precision in [(each, p) for each in exported for p in each.quantised]:
        name = f"{final.name} {precision}"
        fp32, int8 = (distilled.mean_ndcg(workplace, each, "tests") for each in (final.name, name))
        change = max((int8[test] - fp32[test] for test in fp32), key=abs)
        figures = distilled.measure_int8(workplace, final.name, precision)
        rows.append({"name": name, "ndcg_change": change, **figures})
    return rows


def _layers(workplace: Workplace, variants: Sequence[Variant]) -> list[Figures]:
    """The cosine and the kept share of each trained choice of layers."""
    rows = []
    for run in variants:
        if distilled.is_judged(workplace, run.name):
            found = distilled.details(workplace, run.name)
            kept = _kept(workplace, run.name, "development")["mean"]
            layers, cosine = found["distillation"]["layers"], found["best"]["cosine"]
            rows.append({"layers": layers, "cosine": cosine, "kept": kept})
    return rows


def _run(workplace: Workplace, run: Variant) -> Figures:
    found = distilled.details(workplace, run.name)
    texts = sum(found["texts"].values()) - found["num_held_out"]
    return {
        "name": run.name,
        "why": run.why,
        "texts": texts * found["distillation"]["epochs"],
        "cosine": found["best"]["cosine"],
        **_kept(workplace, run.name, "development"),
    }


def draw(figures: Figures, results: Path) -> None:
    """Draw kept share against latency."""
    points = [QualityPoint("the teacher in int8", figures["teacher"]["ms"], 1.0)]
    points += [
        QualityPoint(student["final"], student["ms"], student["mean"], "distilled")
        for student in figures["students"]
        if student["ms"] is not None
    ]
    latency = "ms a query of 10 tokens, int8, one thread"
    figure = plot_quality(points, quality_label="kept share of nDCG@10", latency_label=latency)
    save_figure(figure, results / "distillation-latency.png")
