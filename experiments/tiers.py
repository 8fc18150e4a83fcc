"""Quality against time: query encoders of several shapes, trained alike, and those that ship.

    python -m experiments.tiers --data DATA

DATA, --work and --wordnet are as for experiments/hybrid.py and experiments/distillation.py. Each
student of tiers.toml is cut out of the teacher. Writes docs/results/tiers.json, its page and plot.
Finished parts in --work and --runs are used again. Takes three hours on 2 cores. With
`--students narrower --raw docs/results/tiers-narrower.json`, it is about students that are not only
cut, in an hour.
"""

import json
import random
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers.pytorch_utils import prune_linear_layer

from experiments import distillation_data, hybrid
from experiments.distillation_data import WORDNET, WORDNET_FOLDER, Workplace, prepare
from export.encoder_directory import export_encoder
from export.quality import Collection
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.quality_plot import QualityPoint, plot_quality
from measuring.results import RESULTS, Figures, write
from measuring.runs import Processes, kept, query_latencies
from swiftlet import encoders
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.manifest import load_manifest
from training.model.exported import exported_model
from training.model.poolings import make_pooling

SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
MODES, METRIC, BM25 = ("dense", "hybrid"), "nDCG@10", "BM25"
TEACHER = "six layers, the document encoder"
SHIPPED = {
    "look-up, ships": encoders.LOOKUP_QUERY_ENCODER,
    "two layers, ships": encoders.DEFAULT_QUERY_ENCODER,
    TEACHER: encoders.DEFAULT_ENCODER,
}


def main() -> None:
    options = script_options(
        __doc__, data=Path, work=hybrid.WORK, runs=hybrid.WORK.with_name("tiers"),
        wordnet=WORDNET_FOLDER, jobs=2, threads=1, students=tuple(SETTINGS["students"]),
        raw=RESULTS / "tiers.json",
    )  # fmt: skip
    students = SETTINGS["students"][options.students]
    processes, names = Processes(options.jobs, options.threads), [*students]
    workplace = prepare(options.data.resolve(), options.wordnet, options.runs.resolve())
    cut = partial(distil, workplace, processes, students)
    cut(names[0])  # The others use the teacher's embeddings that it leaves.
    processes.each(cut, names[1:])
    directories = {name: workplace.exported(name) for name in names} | SHIPPED
    times = options.runs / f"latencies-{options.students}.json"
    latencies = query_latencies(directories, times)
    drawing = options.raw.with_suffix(".svg")
    packages = ["torch", "transformers", "onnxruntime", "faiss-cpu", "tantivy"]
    figures = {
        "template": "experiments/tiers.md.j2",
        "plot": drawing.name,
        "group": options.students,
        "machine": describe_machine(packages, threads=str(processes)),
        "settings": SETTINGS,
        "teacher": TEACHER,
        "learnt": hybrid.SETTINGS["learnt"]["names"],
        "students": {name: trained(workplace.run(name)) for name in names},
        "us": {name: 1000 * milliseconds for name, milliseconds in latencies.items()},
        "ndcg": dict(judged(options.data, options.work, directories)),
    }
    print(write(options.raw, figures))
    plot(figures, drawing)


def distil(
    workplace: Workplace, processes: Processes, students: Mapping[str, Any], name: str
) -> None:
    """Cut a student out of the teacher, train it, and export it, unless that is done."""
    shape, run = workplace.folder / "shapes" / name, workplace.run(name)
    if not shape.is_dir():
        cut_out(shape, **students[name])
    if not workplace.exported(name).is_dir():
        corpora = [workplace.data / corpus for corpus in distillation_data.CORPORA]
        arguments = ["--teacher", encoders.DEFAULT_ENCODER.name, "--student", f"{shape}"]
        projection = "--projection" if "width" in students[name] else "--no-projection"
        arguments += [projection, "--queries", f"{sample(workplace)}", "--out", f"{run}"]
        for corpus in (*corpora, workplace.folder / WORDNET):
            arguments += ["--corpus", f"{corpus}"]
        for key, value in SETTINGS["training"].items():
            arguments += ["--set", f"{key}={json.dumps(value)}"]  # also TOML
        arguments += ["--teacher-embeddings", f"{workplace.folder / 'teacher-embeddings'}"]
        output = run.with_suffix(".txt")
        status, written = processes.swiftlet("distill", *arguments, "--resume", output=output)
        if status:
            raise SystemExit(f"{name} failed: {written.splitlines()[-1]}")
        export_encoder(run / "query_encoder", workplace.exported(name), precisions=["int8"])


def sample(workplace: Workplace) -> Path:
    """Queries to train on, drawn from all."""
    path = workplace.folder / "queries.jsonl"
    if not path.exists():
        files = (workplace.web_queries, workplace.training_queries)
        lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
        drawn = random.Random(0).sample(lines, SETTINGS["texts"]["queries"])
        path.write_text("\n".join(drawn) + "\n", "utf-8")
    return path


@torch.no_grad()
def cut_out(
    out: Path,
    layers: list[int],
    feed_forward: int | None = None,
    heads: int | None = None,
    width: int | None = None,
    words: str | None = None,
) -> None:
    """Write some layers of the teacher, with its largest neurons, heads and hidden dimensions.

    The size of a neuron is the product of the norms of its weights, as is that of a head, by those
    of its values; of a hidden dimension, it is the norm of the word embeddings. With `words`, the
    word embeddings are the table of this look-up encoder that ships, at the teacher's mean norm.
    """
    encoder = SentenceTransformer(f"{encoders.torch_weights()}", device="cpu")
    model = encoder[0].auto_model
    model.encoder.layer = nn.ModuleList([model.encoder.layer[each] for each in layers])
    model.config.num_hidden_layers = len(layers)
    for layer in model.encoder.layer:
        first, last = layer.intermediate.dense, layer.output.dense
        sizes = first.weight.norm(dim=1) * last.weight.norm(dim=0)
        largest = sizes.topk(feed_forward or len(sizes)).indices.sort().values
        layer.intermediate.dense = prune_linear_layer(first, largest)
        layer.output.dense = prune_linear_layer(last, largest, dim=1)
        model.config.intermediate_size = len(largest)
        own, of = layer.attention, model.config.num_attention_heads
        values, outputs = own.self.value.weight, own.output.dense.weight.T
        sizes = values.reshape(of, -1).norm(dim=1) * outputs.reshape(of, -1).norm(dim=1)
        own.prune_heads(sizes.argsort()[: of - (heads or of)].tolist())
    vectors = model.embeddings.word_embeddings.weight
    if words:
        table = exported_model(encoders.find(Path(words)), {})[0].embedding.weight
        vectors.copy_(table * (vectors.norm(dim=1).mean() / table.norm(dim=1).mean()))
    if width:
        narrow(model, vectors.norm(dim=0).topk(width).indices.sort().values)
        model.config.num_attention_heads = heads
        encoder[1] = make_pooling("mean", width)
    elif heads:
        pruned = [sorted(layer.attention.pruned_heads) for layer in model.encoder.layer]
        model.config.pruned_heads = dict(enumerate(pruned))
    encoder.save(f"{out}")


def narrow(model: Any, chosen: torch.Tensor) -> None:
    """Leave the `chosen` hidden dimensions of a BERT, (width,)."""
    model.config.hidden_size, model.pooler = len(chosen), None
    embeddings = model.embeddings
    for each in ("word", "position", "token_type"):
        weight = getattr(embeddings, f"{each}_embeddings").weight
        weight.data = weight[:, chosen].contiguous()
    normalisations = [embeddings.LayerNorm]
    for layer in model.encoder.layer:
        own = layer.attention
        for name in ("query", "key", "value"):
            setattr(own.self, name, prune_linear_layer(getattr(own.self, name), chosen, dim=1))
        layer.intermediate.dense = prune_linear_layer(layer.intermediate.dense, chosen, dim=1)
        for output in (own.output, layer.output):
            output.dense = prune_linear_layer(output.dense, chosen)
            normalisations.append(output.LayerNorm)
    for each in normalisations:
        each.weight.data, each.bias.data = each.weight[chosen], each.bias[chosen]


def trained(run: Path) -> Figures:
    """The held-out cosine with the teacher, and the seconds of training."""
    details = load_manifest(run, "model").details
    return {"cosine": details["best"]["cosine"], "seconds": details["seconds"]}


def judged(
    data: Path, work: Path, directories: Mapping[str, Path]
) -> Iterator[tuple[str, dict[str, float]]]:
    """The mean of the metric by collection and system: an encoder in a mode, or BM25 alone."""
    work.mkdir(parents=True, exist_ok=True)
    systems = {
        f"{mode}, {each}": (mode, directories[each]) for each in directories for mode in MODES
    }
    systems[BM25] = "lexical", encoders.LOOKUP_QUERY_ENCODER
    for name, read in hybrid.collections(data).items():
        found = read()
        if found.documents and name not in SETTINGS["without"]["names"]:
            index = hybrid.index_of(work / name, found)
            yield (
                name,
                {
                    system: kept(
                        work / f"{name}, {system}.json", partial(ndcg, index, found, *each)
                    )
                    for system, each in systems.items()
                },
            )


def ndcg(index: Path, found: Collection, mode: str, encoder: Path) -> float:
    """The mean of the metric."""
    return fmean(hybrid.values_of(index, encoder, found, METRIC, mode=mode).values())


def plot(figures: Figures, path: Path) -> None:
    """Mean nDCG@10 against the time of a query, in both modes; the fastest encoder is number 1."""
    points = [
        QualityPoint(
            str(place),
            us,
            fmean(each[f"{mode}, {name}"] for each in figures["ndcg"].values()),
            mode,
        )
        for place, (us, name) in enumerate(
            sorted((us, name) for name, us in figures["us"].items()), 1
        )
        for mode in MODES
    ]
    label = "µs a query of 10 tokens, int8, one thread"
    save_figure(plot_quality(points, latency_label=label, log_latency=True), path)


if __name__ == "__main__":
    main()
