"""docs/results/daft.md: what the runs of experiments/daft.py showed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from daft_latency import measure_latencies
from daft_runs import Variant, Workplace, outcome
from scipy.stats import spearmanr

from evaluation.comparison import PlainColumn, compare
from evaluation.comparison_rendering import to_markdown
from evaluation.embedding_plots import EmbeddingPanel, plot_pca
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
        for name in ("cached", "default"):
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
    return to_markdown(table)


def _seconds_per_step(log: LoggedRun, stage: str) -> float:
    records = [record for record in log.of_kind("step") if record.stage == stage]
    seconds = records[-1].values["seconds"] - records[0].values["seconds"]
    return float(seconds / (records[-1].step - records[0].step))


HEAD = """\
# DAFT

Made by `python experiments/daft.py --data DATA all`, or an experiment by its name, where DATA holds
the collections in BEIR's layout. {machine}

Everything is in miniature. The document tower is all-MiniLM-L6-v2 (6 layers, 384 wide) and reads
48 tokens; the query tower has its layers 0 and 5 in a permuted and sign-flipped basis: as good a
model as before, but a stranger to the document tower, as two independently pre-trained models are
to each other. Both end in the first token's output and a projection to 128 dimensions that begins
at random. Training: squad-dev train, medquad and boolq dev in one corpus, 840 batches of 32 pairs
an epoch; 400 other queries validate, among 1,500 passages. Arithmetic is bf16.
The settings are in `experiments/daft.toml`; what a run changes of them is in `experiments/daft.py`.
An alignment has at most 308 steps, the stage in which both towers train 154.

What they showed, in a few sentences by hand; the tables follow.

- **The collapse is real, and alignment cures it.** With constants from the cache as negatives, the
  towers that were not aligned are one vector within 50 steps; the run is stopped with its figures.
  The same towers aligned first do not collapse. But alignment alone does not make that setting
  good: nothing pushes documents apart, and fine-tuning wears the document tower down.
- **With in-batch negatives beside the cache, fine-tuning raises what alignment reached**, on the
  validation queries and on all three test collections, and more than as many steps of alignment
  alone. Not aligned, the same setting does not collapse in so few steps, but finds next to nothing.
- **Three thousand steps do not make up for what a random projection threw away.** Even `long` stays
  below what the untrained document tower finds by itself with that projection. So of the target
  that a trained pair beats both towers' start, the query tower's half is met and the document
  tower's is missed. The paper trains some fifty times as many pairs.
- **Table 3 holds in two of three points.** Without pre-training the query tower collapses during
  the alignment; without self-attention it ends near chance. Without the shared projection nothing
  collapsed: here both towers have one width, and the document tower was trained for retrieval.
- **Layers:** quality grows up to four, at twice the latency of two; six are no better than four.
- **The paper's δ per dimension is met** where retrieval has become useful, and long before the
  alignment has nothing left to give. Patience never ended an alignment that went well.

"Before" is at the start of that stage, or of the alignment where that collapsed already. A run has
collapsed when `swiftlet train` ended it with the error that says so. There is one seed a run: small
differences between runs may be chance, whatever the significance over queries.
"""

COLLAPSE = """\
## Collapse and cure (001, Figures 1 to 5, Table 1)

`default` draws 64 negatives a query from the cache, which only the query encoder learns from, and
lets the batch's other positives carry gradient to both towers. `cached` has the cache's constants
alone and a higher rate (1e-4, constant): there is nothing that pushes documents apart. Each with
alignment and without (`unaligned`). `document-frozen` aligns the query encoder alone for 450 steps,
more than `default` trains in both stages. `long` aligns for three epochs and trains both towers for
three quarters of one. What `start, document encoder for both` finds is the untrained document tower
by itself.

{figures}

![Training loss]({folder}/loss.png)

![KL estimate during the alignment]({folder}/divergence.png)

Embeddings of 400 queries and 400 documents of squad-dev test; without alignment at the last
checkpoint before the run was stopped:

![Principal components]({folder}/embeddings.png)

Where each criterion would have ended the alignment of `document-frozen`, evaluated every 50 steps:

{stops}

On the test collections, of which no query was trained on:

{tests}
"""

ABLATION = """\
## What the query encoder needs (001, Table 3)

`no-self-attention` is the mean of token embeddings that know nothing of each other.

{figures}

{tests}
"""

LAYERS = """\
## Layers of the query encoder (001, Table 2 and Figure 6)

Which layers were kept stands behind their number. Milliseconds are for one query of 10 tokens in
ONNX int8 on one thread, tokenising included, medians of 1,500 in alternating rounds.

{figures}

{tests}

![Quality against latency]({folder}/latency.png)
"""

PROJECTION = """\
## The projection

`projection-frozen` leaves W, b as they began during the alignment. `pretrained-space` begins with a
square orthogonal matrix, which keeps all angles, and has mean pooling: what the document encoder
knew is kept, and `start, document encoder for both` is all-MiniLM-L6-v2 as it comes, reading 48
tokens.

{figures}

{tests}
"""

NEGATIVES = """\
## Which negatives carry gradient

`default` mixes constants from the cache with in-batch negatives. `negatives-cached` has the
constants alone, `negatives-in-batch` those of the batch alone, and `negatives-re-encoded` draws two
a query from the cache, encodes these 64 with gradient and shows them to the whole batch. Seconds
are for a step of 32 pairs on one core that had a neighbour.

{figures}

{seconds}
"""

MAP = """\
## When alignment matters

Around `cached-unaligned`, one thing changed at a time; `map-aligned-N` is the same after N steps of
alignment, and `cached` after as many as its KL estimate asked for. `map-same-towers` has two equal
towers, the paper's homogeneous case.

{figures}

How well what is known before both towers train predicts what is left of nDCG@10 afterwards, over
these runs:

{correlations}
"""
