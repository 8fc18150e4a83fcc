"""docs/results/daft.md: what the runs of experiments/daft.py showed."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from daft_latency import measure_latencies
from daft_runs import Variant, Workplace, outcome

from evaluation.comparison import PlainColumn, compare
from evaluation.comparison_rendering import caption, to_markdown
from evaluation.embedding_plots import EmbeddingPanel, plot_pca
from evaluation.figures import save_figure
from evaluation.line_plots import Curve, plot_lines
from evaluation.machine import describe_machine
from evaluation.quality_plots import QualityPoint, plot_quality
from evaluation.training_log import LoggedRun, read_training_log
from evaluation.training_plots import divergence_panel, loss_panel

BOUND = math.log(65)
DELTA_PER_DIMENSION = 250 / 512

Experiments = Mapping[str, Sequence[Variant]]


def write_report(
    workplace: Workplace, experiments: Experiments, layers: Mapping[int, str], out: Path
) -> None:
    """Write the page and its pictures from the runs that are there."""
    report = _Report(workplace, experiments, layers, out)
    sections = [
        section()
        for name, section in report.sections.items()
        if all(report.is_done(variant) for variant in experiments[name])
    ]
    page = HEAD.format(
        machine=describe_machine(
            ["torch", "transformers", "sentence-transformers", "onnxruntime", "ranx"],
            threads=f"{workplace.threads} for each of {workplace.jobs} runs at a time",
        )
    )
    out.write_text("\n".join([page, *sections]), "utf-8")
    print(f"wrote {out}")


class _Report:
    def __init__(
        self,
        workplace: Workplace,
        experiments: Experiments,
        layers: Mapping[int, str],
        out: Path,
    ) -> None:
        self._workplace = workplace
        self._experiments = experiments
        self._layers = layers
        self._pictures = out.with_suffix("")
        self._pictures.mkdir(parents=True, exist_ok=True)
        self.sections = {
            "collapse": self._collapse,
            "ablation": self._ablation,
            "layers": self._sweep,
            "projection": self._projection,
            "negatives": self._negatives,
            "map": self._map,
        }

    def is_done(self, variant: Variant) -> bool:
        directory = self._workplace.directory(variant)
        needed = ["outcome.json", *(["tested.json"] if variant.tested else [])]
        return all((directory / name).is_file() for name in needed)

    def _collapse(self) -> str:
        self._picture_of_losses()
        self._picture_of_alignment()
        self._picture_of_embeddings()
        variants = self._experiments["collapse"]
        tested = {name: values for v in variants for name, values in self._tests(v).items()}
        return COLLAPSE.format(
            figures=self._course_table(variants), tests=_comparison(tested), folder=self._folder
        )

    def _ablation(self) -> str:
        variants = self._experiments["ablation"]
        return ABLATION.format(
            figures=self._course_table(variants), tests=self._ended_table(variants)
        )

    def _sweep(self) -> str:
        variants = dict(zip(self._layers, self._experiments["layers"], strict=True))
        latencies = measure_latencies(self._workplace, list(variants.values()))
        names = {v.name: f"{n} layers: {self._layers[n]}" for n, v in variants.items()}
        runs = {names[v.name]: self._tests(v)[_title(v, "ended")] for v in variants.values()}
        column = PlainColumn(
            "ms a query", {names[name]: value for name, value in latencies.items()}, decimals=2
        )
        points = [
            QualityPoint(
                f"{number} layer{'s' if number > 1 else ''}",
                latencies[variant.name],
                fmean(
                    fmean(metrics["nDCG@10"].values())
                    for metrics in runs[names[variant.name]].values()
                ),
                series="DAFT",
            )
            for number, variant in variants.items()
        ]
        figure = plot_quality(
            points, quality_label="nDCG@10, mean over the tests", latency_label="ms a query"
        )
        save_figure(figure, self._pictures / "latency.png")
        return LAYERS.format(
            figures=self._course_table(list(variants.values())),
            tests=_comparison(runs, [column]),
            folder=self._folder,
        )

    def _projection(self) -> str:
        variants = self._experiments["projection"]
        tested = {name: values for v in variants for name, values in self._tests(v).items()}
        return PROJECTION.format(figures=self._course_table(variants), tests=_comparison(tested))

    def _negatives(self) -> str:
        variants = self._experiments["negatives"]
        seconds = {
            _title(v, "ended"): _seconds_per_step(self._log(v), "fine-tuning") for v in variants
        }
        runs = {_title(v, "ended"): self._tests(v)[_title(v, "ended")] for v in variants}
        return NEGATIVES.format(
            figures=self._course_table(variants),
            tests=_comparison(runs, [PlainColumn("s a step", seconds, decimals=2)]),
        )

    def _map(self) -> str:
        return MAP.format(figures=self._course_table(self._experiments["map"]))

    @property
    def _folder(self) -> str:
        return self._pictures.name

    def _log(self, variant: Variant) -> LoggedRun:
        return read_training_log(self._workplace.directory(variant) / "run" / "metrics.jsonl")

    def _tests(self, variant: Variant) -> dict[str, Any]:
        tests = outcome(self._workplace, variant)["tests"]
        return {_title(variant, state): values for state, values in tests.items()}

    def _ended_table(self, variants: Sequence[Variant]) -> str:
        runs = {_title(v, "ended"): self._tests(v)[_title(v, "ended")] for v in variants}
        return _comparison(runs)

    def _course_table(self, variants: Sequence[Variant]) -> str:
        """How runs went on the validation queries: before both towers train, and at the end."""
        head = [
            "run",
            "KL / dim before",
            "cosine q, d before",
            "nDCG@10 before",
            "best",
            "last",
            "loss at the end",
            "cosine q, d",
            "effective rank q, d",
            "collapsed",
        ]
        rows = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for variant in variants:
            evaluations = [
                record.values
                for record in self._log(variant).of_kind("evaluation")
                if record.stage == "fine-tuning"
            ]
            first, last = evaluations[0], evaluations[-1]
            verdict = next(
                (e["collapse"] for e in reversed(evaluations) if e["collapse"] != "none"), "no"
            )
            collapsed = outcome(self._workplace, variant)["collapsed"]
            cells = [
                variant.name,
                f"{first['kl_per_dimension']:.3f}",
                f"{first['query_cosine']:.2f}, {first['document_cosine']:.2f}",
                f"{first['ndcg@10']:.3f}",
                f"{max(e['ndcg@10'] for e in evaluations):.3f}",
                f"{last['ndcg@10']:.3f}",
                f"{last['loss']:.2f} of {last['collapsed_loss']:.2f}",
                f"{last['query_cosine']:.2f}, {last['document_cosine']:.2f}",
                f"{last['query_effective_rank']:.1f}, {last['document_effective_rank']:.1f}",
                f"**{verdict}**" if collapsed else "no",
            ]
            rows.append("| " + " | ".join(cells) + " |")
        return "\n".join(rows)

    def _picture_of_losses(self) -> None:
        curves = []
        for variant in self._experiments["collapse"]:
            for series in self._log(variant).series("step", "loss"):
                if series.stage == "fine-tuning":
                    start = self._log(variant).stage_starts()["fine-tuning"]
                    curves.append(Curve(variant.name, series.x - start, series.y))
        save_figure(
            plot_lines([loss_panel(curves, collapsed_loss=BOUND, title="Both towers train")]),
            self._pictures / "loss.png",
        )

    def _picture_of_alignment(self) -> None:
        log = self._log(self._experiments["collapse"][0])
        (kl,) = (s for s in log.series("evaluation", "kl_per_dimension") if s.stage == "alignment")
        stopped = log.of_kind("stop")
        panel = divergence_panel(
            [Curve("KL estimate", kl.x, kl.y)],
            threshold=DELTA_PER_DIMENSION,
            stopped_at=float(stopped[0].step) if stopped else None,
            per_dimension=True,
            x_label="step of the alignment",
        )
        save_figure(plot_lines([panel]), self._pictures / "divergence.png")

    def _picture_of_embeddings(self) -> None:
        variants = {variant.name: variant for variant in self._experiments["collapse"]}
        shown = [
            ("default", "start", "before training"),
            ("cached-unaligned", "ended", "trained without alignment"),
            ("default", "aligned", "aligned"),
            ("default", "ended", "aligned and fine-tuned"),
        ]
        panels = []
        for name, state, title in shown:
            directory = self._workplace.directory(variants[name])
            with np.load(directory / "embeddings.npz") as found:
                panels.append(
                    EmbeddingPanel(title, found[f"{state} queries"], found[f"{state} documents"])
                )
        save_figure(plot_pca(panels), self._pictures / "embeddings.png")


def _title(variant: Variant, state: str) -> str:
    return variant.name if state == "ended" else f"{variant.name}, {state}"


def _comparison(runs: Mapping[str, Any], plain: Sequence[PlainColumn] = ()) -> str:
    table = compare(runs, correction="holm", plain_columns=plain)
    return f"{to_markdown(table)}\n\n{caption(table)}"


def _seconds_per_step(log: LoggedRun, stage: str) -> float:
    records = [record for record in log.of_kind("step") if record.stage == stage]
    seconds = records[-1].values["seconds"] - records[0].values["seconds"]
    return float(seconds / (records[-1].step - records[0].step))


HEAD = """\
# DAFT

Made by `python experiments/daft.py --data DATA all`. {machine}
"""
COLLAPSE = ABLATION = LAYERS = PROJECTION = NEGATIVES = MAP = "{figures}"
