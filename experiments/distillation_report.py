"""docs/results/distillation.md: what the runs of experiments/distillation.py showed."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, median

import numpy as np
from distillation_map import layer_map
from distillation_prose import HEAD, INT8, LAYERS, PATH, SHIPPED
from distillation_runs import (
    TEACHER,
    Variant,
    Workplace,
    details,
    judged_file,
    kept_shares,
    read_figures,
)
from distillation_shipped import QUANTISED, measure_int8, query_latencies

from evaluation.figures import COLOURS, new_figure, save_figure
from evaluation.machine import describe_machine
from evaluation.markdown import table
from evaluation.quality_plots import QualityPoint, plot_quality

Rows = Sequence[Sequence[str]]
PACKAGES = ["torch", "transformers", "sentence-transformers", "onnxruntime", "faiss-cpu", "ranx"]


def write_report(
    workplace: Workplace,
    path: Sequence[Variant],
    layers: Sequence[Variant],
    finals: Mapping[Variant, float],
    out: Path,
) -> None:
    """Write the page and its picture from the runs that are there.

    :param finals: The students that were trained to the end, with the share of the teacher's
        nDCG@10 that each has to keep.
    """
    page = HEAD.format(
        machine=describe_machine(
            PACKAGES, threads=f"{workplace.threads} for each of {workplace.jobs} runs at a time"
        )
    )
    picture = out.with_suffix(".png")
    sections = [
        SHIPPED.format(
            shares=table(_final_rows(workplace, finals)),
            picture=f"{picture.stem}-latency.png",
        ),
        INT8.format(changes=table(_int8_rows(workplace, finals))),
        LAYERS.format(layers=table(_layer_rows(workplace, layers)), picture=picture.name),
        PATH.format(path=table(_path_rows(workplace, path))),
    ]
    _draw_layers(workplace, layers, picture)
    _draw_finals(workplace, finals, picture.with_stem(f"{picture.stem}-latency"))
    out.write_text("\n".join([page, *sections]), "utf-8")
    print(f"wrote {out}")


def _final_rows(workplace: Workplace, finals: Mapping[Variant, float]) -> Rows:
    teacher = read_figures(workplace, TEACHER, "tests")
    latencies = _latencies(workplace, finals)
    rows = [["", *teacher, "mean", "wanted", "ms"]]
    ndcg = [f"{fmean(values.values()):.4f}" for values in teacher.values()]
    rows.append(["nDCG@10 of the teacher in fp32", *ndcg, "", "", f"{latencies[TEACHER]:.3f}"])
    for variant, wanted in finals.items():
        precisions = (f"{variant.name} {each}" for each in QUANTISED)
        for name in (variant.after, variant.name, *precisions):
            if not _is_done(workplace, name, "tests"):
                continue
            shares = list(kept_shares(workplace, name, "tests").values())
            cells = [f"{share:.1%}" for share in (*shares, fmean(shares))]
            taken = f"{latencies[variant.name]:.3f}" if name.endswith(" int8") else ""
            rows.append([name, *cells, f"{wanted:.0%}", taken])
    return rows


def _int8_rows(workplace: Workplace, finals: Iterable[Variant]) -> Rows:
    head = ["", "mean", "median", "1 % are below", "smallest", "overlap@10"]
    rows = [[*head, "largest change of nDCG@10", "other bytes under load"]]
    for variant, precision in product(_exported(workplace, finals), QUANTISED):
        found = measure_int8(workplace.prepared, variant.name, precision)
        cosines = [fmean(found.cosines), median(found.cosines)]
        cosines += [float(np.percentile(found.cosines, 1)), found.cosines[0]]
        name = f"{variant.name} {precision}"
        change = max(_changes(workplace, variant.name, name), key=abs)
        cells = [*(f"{cosine:.4f}" for cosine in cosines), f"{found.overlap:.3f}"]
        rows.append([name, *cells, f"{change:+.4f}", str(found.other_bytes)])
    return rows


def _changes(workplace: Workplace, *names: str) -> Iterable[float]:
    """By how much the nDCG@10 of each test differs between two encoders."""
    fp32, int8 = (read_figures(workplace, name, "tests") for name in names)
    return [fmean(int8[test].values()) - fmean(values.values()) for test, values in fp32.items()]


def _layer_rows(workplace: Workplace, variants: Sequence[Variant]) -> Rows:
    trained = {
        tuple(_kept_layers(workplace, v)): v for v in variants if _is_done(workplace, v.name)
    }
    rows = [["layers", "at the start", "mapped", "trained", "kept share"]]
    for layers, (start, mapped) in layer_map(workplace.prepared).items():
        cells = [", ".join(map(str, layers)), f"{start:.3f}", f"{mapped:.3f}"]
        if layers in trained:
            name = trained[layers].name
            shares = kept_shares(workplace, name, "development").values()
            cells += [f"{details(workplace, name)['best']['cosine']:.4f}", f"{fmean(shares):.1%}"]
        else:
            cells += ["", ""]
        rows.append(cells)
    return rows


def _path_rows(workplace: Workplace, variants: Sequence[Variant]) -> Rows:
    teacher = read_figures(workplace, TEACHER, "development")
    rows = [["run", "what differs", "texts seen", "cosine", *teacher, "mean"]]
    for variant in variants:
        if not _is_done(workplace, variant.name):
            continue
        shares = list(kept_shares(workplace, variant.name, "development").values())
        found = details(workplace, variant.name)
        settings = found["distillation"]
        texts = sum(found["texts"].values()) - found["num_held_out"]
        seen = round(texts * settings["epochs"], -3)
        cells = [variant.name, variant.why, f"{seen:,.0f}", f"{found['best']['cosine']:.4f}"]
        rows.append([*cells, *(f"{share:.1%}" for share in (*shares, fmean(shares)))])
    return rows


def _draw_finals(workplace: Workplace, finals: Mapping[Variant, float], path: Path) -> None:
    """What a kept share costs."""
    latencies = _latencies(workplace, finals)
    points = [QualityPoint("the teacher in int8", latencies[TEACHER], 1.0)]
    for variant in _exported(workplace, finals):
        shares = kept_shares(workplace, f"{variant.name} int8", "tests").values()
        quality = fmean(shares)
        points.append(QualityPoint(variant.name, latencies[variant.name], quality, "distilled"))
    figure = plot_quality(
        points,
        quality_label="kept share of nDCG@10",
        latency_label="ms a query of 10 tokens, int8, one thread",
    )
    save_figure(figure, path)


def _draw_layers(workplace: Workplace, variants: Sequence[Variant], path: Path) -> None:
    """The kept share of every choice of layers: a panel for each number, best on top."""
    by_number: dict[int, list[tuple[float, str]]] = {}
    for variant in variants:
        if _is_done(workplace, variant.name):
            layers = _kept_layers(workplace, variant)
            share = fmean(kept_shares(workplace, variant.name, "development").values())
            by_number.setdefault(len(layers), []).append((share, ", ".join(map(str, layers))))
    figure = new_figure(9.5, 3.4, len(by_number))
    for axes, colour, (number, found) in zip(
        figure.axes, COLOURS, sorted(by_number.items()), strict=False
    ):
        shares, names = zip(*sorted(found), strict=True)
        bars = axes.barh(names, shares, color=colour, height=0.7)
        axes.bar_label(bars, [f"{share:.1%}" for share in shares], padding=3, fontsize=8)
        axes.set(title=f"{number} of 6 layers", xlabel="kept share of nDCG@10")
        axes.set_xlim(min(shares) - 0.08, max(shares) + 0.06)
        axes.xaxis.set_major_formatter(lambda value, _position: f"{100 * value:g}%")
        axes.grid(visible=False, axis="y")
    save_figure(figure, path)


def _latencies(workplace: Workplace, finals: Iterable[Variant]) -> dict[str, float]:
    names = [variant.name for variant in _exported(workplace, finals)]
    return query_latencies(workplace.prepared, names)


def _exported(workplace: Workplace, finals: Iterable[Variant]) -> list[Variant]:
    return [final for final in finals if _is_done(workplace, f"{final.name} int8", "tests")]


def _kept_layers(workplace: Workplace, variant: Variant) -> list[int]:
    layers: list[int] = details(workplace, variant.name)["distillation"]["layers"]
    return layers


def _is_done(workplace: Workplace, name: str, kind: str = "development") -> bool:
    return judged_file(workplace.directory(name), kind).is_file()
