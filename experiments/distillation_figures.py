"""The raw figures of docs/results/distillation.md, collected from finished runs."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean

from experiments.distillation_data import Workplace
from experiments.distillation_map import layer_map
from experiments.distillation_runs import (
    TEACHER,
    Variant,
    details,
    is_judged,
    kept_shares,
    mean_ndcg,
)
from experiments.distillation_shipped import (
    NUM_QUERIES,
    QUANTISED,
    measure_int8,
)
from experiments.latency import query_latencies
from experiments.processes import Processes
from loadtests.results import Figures
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.evaluation.machine import describe_machine

PACKAGES = ["torch", "transformers", "sentence-transformers", "onnxruntime", "faiss-cpu", "ranx"]


def collect(
    workplace: Workplace,
    processes: Processes,
    path: Sequence[Variant],
    layers: Sequence[Variant],
    finals: Mapping[Variant, float],
) -> Figures:
    """All figures of the page.

    :param path: The runs that show the effect of each setting.
    :param layers: The short runs with some of the teacher's layers each.
    :param finals: Students that were trained to the end -> the share of the teacher's nDCG@10 that
        each has to keep.
    """
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
    trained = {
        tuple(details(workplace, run.name)["distillation"]["layers"]): run.name
        for run in variants
        if is_judged(workplace, run.name)
    }
    rows: list[Figures] = []
    for layers, (start, mapped) in layer_map(workplace):
        row: Figures = {"layers": layers, "start": start, "mapped": mapped, "trained": None}
        if tuple(layers) in trained:
            name = trained[tuple(layers)]
            row["trained"] = {
                "cosine": details(workplace, name)["best"]["cosine"],
                "kept": _kept(workplace, name, "development")["mean"],
            }
        rows.append(row)
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
