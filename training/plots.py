"""Plots of a training run: loss, alignment and collapse (001, Figures 2 and 4)."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from swiftlet import disk
from swiftlet.errors import CollectionError
from swiftlet.evaluation.plots.figures import DOCUMENT_COLOUR, QUERY_COLOUR, save_figure
from swiftlet.evaluation.plots.lines import Curve, Level, LinePanel, Moment, plot_lines
from swiftlet.publication import storage_errors
from training.logged_run import LoggedRun, read_training_log

_LOG_NAME = "metrics.jsonl"
_FROM_ZERO = (0.0, None)
_COLLAPSE_FIGURES: dict[str, tuple[str, tuple[float | None, float | None]]] = {
    "cosine": ("mean pairwise cosine", (-0.05, 1.05)),
    "effective_rank": ("effective rank", _FROM_ZERO),
    "deviation": ("mean deviation per dimension", _FROM_ZERO),
}


def loss_panel(
    curves: Sequence[Curve], *, collapsed_loss: float | None = None, title: str = ""
) -> LinePanel:
    """Training losses over steps, smoothed, with the loss of a collapse, ln(|D⁻|+1) (eq. 7).

    :param collapsed_loss: `math.log(num_negatives + 1)`: 4.174 for 64 negatives.
    """
    levels = []
    if collapsed_loss is not None:
        levels = [Level(collapsed_loss, f"$\\ln(|D^-|+1)$\n= {collapsed_loss:.3f}")]
    return LinePanel(
        "training loss", curves, title=title, levels=levels, smoothed=True, y_limits=_FROM_ZERO
    )


def divergence_panel(
    curves: Sequence[Curve],
    *,
    threshold: float | None = None,
    stopped_at: float | None = None,
    per_dimension: bool = False,
    x_label: str = "epoch",
    title: str = "",
) -> LinePanel:
    """KL estimates during the alignment, with δ and the end by early stopping (Figure 4).

    An infinite `threshold` is not drawn.
    """
    levels = []
    if threshold is not None and math.isfinite(threshold):
        levels = [Level(threshold, f"$\\delta$ = {threshold:.4g}")]
    return LinePanel(
        "KL estimate per dimension" if per_dimension else "KL estimate",
        curves,
        x_label=x_label,
        title=title,
        levels=levels,
        moments=[] if stopped_at is None else [Moment(stopped_at, "stopped")],
        markers=True,
    )


def plot_training(
    run_directory: Path, out: Path, *, threshold: float | None = None, suffix: str = ".png"
) -> tuple[Path, ...]:
    """Draw the metrics.jsonl of a run into the folder `out`, which is made if missing.

    The files are loss, divergence, collapse and quality, with `suffix` (.png or .svg). A plot is
    left out if the run has no figures for it. `threshold` is δ; the default is the last
    "kl_threshold" that was logged.

    :returns: The files written.
    :raises CollectionError: When the log cannot be read, or has nothing to draw.
    :raises InvalidArgumentError: When `suffix` is neither.
    :raises MissingExtraError: When matplotlib is not installed.
    :raises StorageError: When the file system refuses.
    """
    run = read_training_log(run_directory / _LOG_NAME)
    if threshold is None:
        threshold = run.last("evaluation", "kl_threshold")
    figures = {
        "loss": _loss(run),
        "divergence": _divergence(run, threshold),
        "collapse": _collapse(run),
        "quality": _quality(run),
    }
    drawn = {name: panels for name, panels in figures.items() if panels}
    if not drawn:
        raise CollectionError(
            run.path,
            "there is nothing to draw: no step has a loss, and no evaluation has a KL estimate, "
            "collapse figures or nDCG@10",
        )
    with storage_errors(out):
        disk.make_directory(out, parents=True, exist_ok=True)
    paths = []
    for name, panels in drawn.items():
        paths.append(out / f"{name}{suffix}")
        save_figure(plot_lines(panels), paths[-1])
    return tuple(paths)


def _loss(run: LoggedRun) -> list[LinePanel]:
    curves = [Curve(series.stage, series.x, series.y) for series in run.series("step", "loss")]
    limit = run.last("evaluation", "collapsed_loss")
    return [loss_panel(curves, collapsed_loss=limit)] if curves else []


def _divergence(run: LoggedRun, threshold: float | None) -> list[LinePanel]:
    curves = [
        Curve(series.stage, series.x, series.y)
        for series in run.series("evaluation", "kl", by="epoch")
    ]
    stops = [run.position(record, by="epoch") for record in run.of_kind("stop")]
    if not curves:
        return []
    return [divergence_panel(curves, threshold=threshold, stopped_at=stops[0] if stops else None)]


def _collapse(run: LoggedRun) -> list[LinePanel]:
    panels = []
    for figure, (label, y_limits) in _COLLAPSE_FIGURES.items():
        curves = [
            curve
            for tower, name, colour in (
                ("query", "queries", QUERY_COLOUR),
                ("document", "documents", DOCUMENT_COLOUR),
            )
            if (curve := _joined(run, f"{tower}_{figure}", name, colour)) is not None
        ]
        if curves:
            panels.append(
                LinePanel(label, curves, moments=_stages(run), markers=True, y_limits=y_limits)
            )
    return panels


def _quality(run: LoggedRun) -> list[LinePanel]:
    curve = _joined(run, "ndcg@10", "nDCG@10", None)
    if curve is None:
        return []
    return [LinePanel("nDCG@10", [curve], moments=_stages(run), markers=True, y_limits=_FROM_ZERO)]


def _joined(run: LoggedRun, key: str, name: str, colour: str | None) -> Curve | None:
    """One curve over all stages; None if no evaluation has the figure."""
    series = run.series("evaluation", key)
    if not series:
        return None
    x = np.concatenate([one.x for one in series])
    return Curve(name, x, np.concatenate([one.y for one in series]), colour)


def _stages(run: LoggedRun) -> list[Moment]:
    """The start of each stage after the first."""
    return [Moment(start, stage) for stage, start in [*run.stage_starts().items()][1:]]
