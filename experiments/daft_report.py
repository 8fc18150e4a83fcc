"""docs/results/daft.md: what the runs of experiments/daft.py showed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from daft_latency import measure_latencies
from daft_prose import ABLATION, COLLAPSE, HEAD, LAYERS, MAP, NEGATIVES, PROJECTION
from daft_runs import Variant, Workplace, outcome
from scipy.stats import spearmanr

from evaluation.comparison import PlainColumn, compare
from evaluation.comparison_rendering import to_markdown
from evaluation.embedding_plots import EmbeddingPanel, plot_pca, plot_tsne
from evaluation.figures import save_figure
from evaluation.line_plots import Curve, plot_lines
from evaluation.machine import describe_machine
from evaluation.quality_plots import QualityPoint, plot_quality
from evaluation.training_log import LoggedRun, read_training_log
from evaluation.training_plots import divergence_panel, loss_panel
from training.divergence import AlignmentStopping

DELTA_PER_DIMENSION = 250 / 512
LONGEST_ALIGNMENT = "document-frozen"
PREDICTORS = {
    "kl_per_dimension": "KL estimate",
    "ndcg@10": "nDCG@10 of ANN retrieval",
    "query_cosine": "mean cosine of queries",
    "document_cosine": "mean cosine of documents",
    "query_effective_rank": "effective rank of queries",
    "document_effective_rank": "effective rank of documents",
}

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
            figures=self._course_table(variants),
            tests=_comparison(tested),
            stops=self._stopping_table(),
            folder=self._folder,
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
        rows = ["| run | seconds a step |", "|---|---|"]
        rows += [f"| {name} | {value:.2f} |" for name, value in seconds.items()]
        return NEGATIVES.format(figures=self._course_table(variants), seconds="\n".join(rows))

    def _map(self) -> str:
        variants = self._experiments["map"]
        return MAP.format(
            figures=self._course_table(variants),
            correlations=self._correlations(variants),
        )

    def _stopping_table(self) -> str:
        """Where each criterion would have ended the longest alignment, and what it had reached."""
        (longest,) = (v for v in self._experiments["collapse"] if v.name == LONGEST_ALIGNMENT)
        evaluations = [
            record
            for record in self._log(longest).of_kind("evaluation")
            if record.stage == "alignment"
        ]
        dim = round(evaluations[0].values["kl"] / evaluations[0].values["kl_per_dimension"])
        criteria = {
            f"δ = {delta:.3f} a dimension": AlignmentStopping(dim, None, delta, None)
            for delta in (0.6, DELTA_PER_DIMENSION, 0.4, 0.3)
        } | {f"patience {n}": AlignmentStopping(dim, None, None, n) for n in (1, 2, 3)}
        rows = ["| criterion | ends at step | KL / dim | nDCG@10 |", "|---|---|---|---|"]
        for name, stopping in criteria.items():
            found = next(
                (e for e in evaluations[1:] if stopping.reason_to_stop(e.values["kl"])), None
            )
            values = (found or evaluations[-1]).values
            step = "never" if found is None else str(found.step)
            rows.append(
                f"| {name} | {step} | {values['kl_per_dimension']:.3f} | {values['ndcg@10']:.3f} |"
            )
        return "\n".join(rows)

    def _correlations(self, variants: Sequence[Variant]) -> str:
        """How what is known before both towers train goes with what remains afterwards."""
        first, last = [], []
        for variant in variants:
            evaluations = self._last_stage(variant)
            first.append(evaluations[0])
            last.append(evaluations[-1])
        kept = [values["ndcg@10"] for values in last]
        rows = ["| known before | rank correlation with nDCG@10 at the end | p |", "|---|---|---|"]
        for key, name in PREDICTORS.items():
            test = spearmanr([values[key] for values in first], kept)
            rows.append(f"| {name} | {test.statistic:+.2f} | {test.pvalue:.3f} |")
        return "\n".join(rows)

    def _last_stage(self, variant: Variant) -> list[Mapping[str, Any]]:
        """The evaluations while both towers train, or of the alignment that did not get there."""
        evaluations = self._log(variant).of_kind("evaluation")
        return [record.values for record in evaluations if record.stage == evaluations[-1].stage]

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
            evaluations = self._last_stage(variant)
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
        """Figure 2, for each way to choose negatives with its own limit."""
        variants = {variant.name: variant for variant in self._experiments["collapse"]}
        panels = []
        for name in ("cached-fast", "cached", "default"):
            curves = []
            for chosen in (f"{name}-unaligned", name):
                log = self._log(variants[chosen])
                (loss,) = (s for s in log.series("step", "loss") if s.stage == "fine-tuning")
                start = log.stage_starts()["fine-tuning"]
                label = "not aligned" if chosen.endswith("-unaligned") else "aligned"
                curves.append(Curve(label, loss.x - start, loss.y))
            limit = log.last("evaluation", "collapsed_loss")
            panels.append(loss_panel(curves, collapsed_loss=limit, title=name))
        save_figure(plot_lines(panels), self._pictures / "loss.png")

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
            ("cached-fast-unaligned", "ended", "trained without alignment"),
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
        save_figure(plot_tsne(panels), self._pictures / "neighbourhoods.png")


def _title(variant: Variant, state: str) -> str:
    return variant.name if state == "ended" else f"{variant.name}, {state}"


def _comparison(runs: Mapping[str, Any], plain: Sequence[PlainColumn] = ()) -> str:
    table = compare(runs, correction="holm", plain_columns=plain)
    return to_markdown(table)


def _seconds_per_step(log: LoggedRun, stage: str) -> float:
    records = [record for record in log.of_kind("step") if record.stage == stage]
    seconds = records[-1].values["seconds"] - records[0].values["seconds"]
    return float(seconds / (records[-1].step - records[0].step))
