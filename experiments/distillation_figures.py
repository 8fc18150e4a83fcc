"""The raw figures and the plots of docs/results/distillation.md, from finished runs."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean

from experiments.distillation_data import Workplace
from experiments.distillation_runs import (
    NUM_QUERIES,
    QUANTISED,
    TEACHER,
    Variant,
    details,
    is_judged,
    kept_shares,
    mean_ndcg,
    measure_int8,
)
from experiments.runs import Processes, query_latencies
from loadtests.results import Figures
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.evaluation.machine import describe_machine
from swiftlet.evaluation.plots.figures import COLOURS, new_figure, save_figure
from swiftlet.evaluation.plots.quality import QualityPoint, plot_quality

PACKAGES = ["torch", "transformers", "sentence-transformers", "onnxruntime", "faiss-cpu", "ranx"]


def collect(
    workplace: Workplace,
    processes: Processes,
    path: Sequence[Variant],
    layers: Sequence[Variant],
    finals: Mapping[Variant, float],
) -> Figures:
    """All figures of the page; `finals` have the share of the teacher's nDCG@10 to keep."""
    exported = [final for final in finals if is_judged(workplace, f"{final.name} int8", "tests")]
    directories = {final.name: workplace.exported(final.name) for final in exported}
    latencies = query_latencies(
        directories | {TEACHER: DEFAULT_ENCODER}, workplace.exported("latencies.json")
    )
    return {
        "template": "experiments/distillation.md.j2",
        "machine": describe_machine(PACKAGES, threads=str(processes)),
        "teacher": {"ndcg": mean_ndcg(workplace, TEACHER, "tests"), "ms": latencies[TEACHER]},
        "students": [
            figures
            for final, wanted in finals.items()
            for figures in _students(workplace, final, wanted, latencies)
        ],
        "num_int8_queries": NUM_QUERIES,
        "int8": _int8(workplace, exported),
        "layers": _layers(workplace, layers),
        "path": [_run(workplace, run) for run in path if is_judged(workplace, run.name)],
    }


def _students(
    workplace: Workplace, final: Variant, wanted: float, latencies: Mapping[str, float]
) -> Iterable[Figures]:
    """A student after its first run, after its last run, and quantised."""
    for name in (final.after, final.name, *(f"{final.name} {each}" for each in QUANTISED)):
        if is_judged(workplace, name, "tests"):
            shipped = name.endswith(" int8")
            yield {"name": name, "final": final.name, "wanted": wanted} | {
                **_kept(workplace, name, "tests"),
                "ms": latencies[final.name] if shipped else None,
            }


def _kept(workplace: Workplace, name: str, kind: str) -> Figures:
    shares = kept_shares(workplace, name, kind)
    return {"kept": shares, "mean": fmean(shares.values())}


def _int8(workplace: Workplace, exported: Sequence[Variant]) -> list[Figures]:
    rows = []
    for final, precision in product(exported, QUANTISED):
        name = f"{final.name} {precision}"
        fp32, int8 = mean_ndcg(workplace, final.name, "tests"), mean_ndcg(workplace, name, "tests")
        change = max((int8[test] - fp32[test] for test in fp32), key=abs)
        figures = measure_int8(workplace, final.name, precision)
        rows.append({"name": name, "ndcg_change": change, **figures})
    return rows


def _layers(workplace: Workplace, variants: Sequence[Variant]) -> list[Figures]:
    """The cosine and the kept share of each trained choice of layers."""
    rows = []
    for run in variants:
        if is_judged(workplace, run.name):
            found = details(workplace, run.name)
            kept = _kept(workplace, run.name, "development")["mean"]
            layers, cosine = found["distillation"]["layers"], found["best"]["cosine"]
            rows.append({"layers": layers, "cosine": cosine, "kept": kept})
    return rows


def _run(workplace: Workplace, run: Variant) -> Figures:
    found = details(workplace, run.name)
    texts = sum(found["texts"].values()) - found["num_held_out"]
    return {
        "name": run.name,
        "why": run.why,
        "texts": texts * found["distillation"]["epochs"],
        "cosine": found["best"]["cosine"],
        **_kept(workplace, run.name, "development"),
    }


def draw(figures: Figures, results: Path) -> None:
    _draw_students(figures, results / "distillation-latency.png")
    _draw_layers(figures, results / "distillation.png")


def _draw_students(figures: Figures, path: Path) -> None:
    points = [QualityPoint("the teacher in int8", figures["teacher"]["ms"], 1.0)]
    points += [
        QualityPoint(student["final"], student["ms"], student["mean"], "distilled")
        for student in figures["students"]
        if student["ms"] is not None
    ]
    figure = plot_quality(
        points,
        quality_label="kept share of nDCG@10",
        latency_label="ms a query of 10 tokens, int8, one thread",
    )
    save_figure(figure, path)


def _draw_layers(figures: Figures, path: Path) -> None:
    """The kept share of every trained choice of layers: a panel for each number, best on top."""
    by_number: dict[int, list[tuple[float, str]]] = {}
    for row in figures["layers"]:
        name = ", ".join(map(str, row["layers"]))
        by_number.setdefault(len(row["layers"]), []).append((row["kept"], name))
    figure = new_figure(9.5, 3.4, len(by_number))
    for axes, colour, (number, found) in zip(
        figure.axes, COLOURS, sorted(by_number.items()), strict=False
    ):
        shares, names = zip(*sorted(found), strict=True)
        bars = axes.barh(names, shares, color=colour, height=0.7)
        axes.bar_label(bars, [f"{share:.1%}" for share in shares], padding=3, fontsize=8)
        axes.set(title=f"{number} of 6 layers", xlabel="kept share of nDCG@10")
        axes.set_xlim(min(shares) - 0.08, max(shares) + 0.06)
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter(lambda value, _position: f"{100 * value:g}%")
        axes.grid(visible=False, axis="y")
    save_figure(figure, path)
