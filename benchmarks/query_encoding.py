"""The cost of encoding a query: the shipped encoders and their peers, and the paper's sizes.

    python -m benchmarks.query_encoding --data DATA/scifact --student STUDENT

One query at a time on one thread; all encoders alternate in one run. Writes the figures of this
kind of processor to docs/results/query-encoding.json, beside those of other kinds, and the page.
Needs the torch weights of the extra `dev`. STUDENT has those of the query encoder, as
experiments/distillation.py leaves them. OpenVINO is measured if openvino and nncf are installed.
"""

import json
import os
import tempfile
import time
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
import transformers
from onnxruntime.quantization import QuantType

from benchmarks.peers import INT8, QUERY_LAYERS, TORCH, named_peers
from export.encoder_directory import export_encoder
from export.graphs.quantisation import quantised
from export.latency import measure_latencies, texts_of_length
from export.parity import torch_reference
from export.quality import METRIC, Collection
from export.settings import PRECISIONS
from export.source import load_source
from loadtests.command_line import script_options
from loadtests.results import RESULTS, write
from swiftlet.encoders import DEFAULT_ENCODER, torch_weights
from swiftlet.encoders.encoder import MODEL_FILES, TOKENIZER_FILE, OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.evaluation.exact import rank
from swiftlet.evaluation.machine import describe_machine, processor_kind
from swiftlet.evaluation.metrics import evaluate
from swiftlet.index.documents.passages import encoder_text
from swiftlet.types import Embeddings
from training.model.quiet import quiet
from training.model.towers import Tower, TowerSettings

SHIPPED_LENGTHS = (4, 8, 10, 16, 32, 64)
FORM_LENGTHS = (10, 15, 20)
PAPER_LENGTHS = (4, 10, 16, 32, 64)
# 001, Table 2: milliseconds of the query encoder on a Xeon Silver 4210, without tokenisation.
PAPER_MS = {2: 15.6, 4: 29.4, 6: 42.8, 8: 55.1, 10: 67.4, 12: 79.1}
PACKAGES = ["onnxruntime", "torch", "sentence-transformers", "transformers", "optimum-onnx"]
PACKAGES += ["openvino", "nncf"]
SHIPPED_FORM, EIGHT_BITS = "int8, weights of 7 bits (ships)", {"reduce_range": False}
OTHER_FORMS = {"int8, weights of 8 bits": EIGHT_BITS}
OTHER_FORMS["int8, unsigned weights of 8 bits"] = EIGHT_BITS | {"weight_type": QuantType.QUInt8}
RUNTIMES = ("torch", "fp32", "int8")

Name = TypeVar("Name", bound=Hashable)


class Tokenised:
    """An encoder in torch or ONNX Runtime that tokenises each text only once."""

    def __init__(self, encoder: OnnxEncoder, tower: Tower | None = None) -> None:
        self._encoder, self._tower = encoder, tower
        self._tokenise = cache(encoder.tokenise)

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> Embeddings:
        ids = self._tokenise(*texts)
        if self._tower is None:
            return self._encoder.embed(ids)[np.newaxis]
        tensor = torch.tensor([ids])
        outputs = self._tower({"input_ids": tensor, "attention_mask": torch.ones_like(tensor)})
        embeddings: Embeddings = torch.nn.functional.normalize(outputs, dim=-1).numpy()
        return embeddings


def main() -> None:
    raw = RESULTS / "query-encoding.json"
    options = script_options(__doc__, rounds=60, data=Path, student=Path, raw=raw)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        forms = measure_forms(folder, options.student, options.data, options.rounds)
        shipped = measure_shipped(folder, options.rounds)
        paper = measure_paper_sizes(folder, options.rounds)
    kinds = json.loads(options.raw.read_text("utf-8"))["kinds"] if options.raw.exists() else {}
    kinds[processor_kind()] = {
        "machine": describe_machine(PACKAGES, threads="1"),
        "shipped_ms": shipped,
        "forms": forms,
        "paper_ms": {
            runtime: {str(layers): paper[layers, runtime] for layers in PAPER_MS}
            for runtime in RUNTIMES
        },
    }
    figures = {
        "template": "benchmarks/query_encoding.md.j2",
        "teacher": TORCH,
        "peer": INT8.format(len(QUERY_LAYERS)),
        "shipped_form": SHIPPED_FORM,
        "reported_ms": {str(layers): value for layers, value in PAPER_MS.items()},
        "kinds": kinds,
    }
    print(write(options.raw, figures))


def measure_forms(folder: Path, student: Path, data: Path, rounds: int) -> dict[str, Any]:
    """Milliseconds by tokens, nDCG@10 and cosine with fp32 of each form of a query encoder."""
    exported = folder / "forms"
    with quiet():
        export_encoder(student, exported)
    fp32, int8 = (OnnxEncoder.load(exported, precision=each) for each in PRECISIONS)
    forms: dict[str, Any] = {SHIPPED_FORM: int8, "fp32": fp32}
    graph = exported / MODEL_FILES["fp32"]
    texts = torch_reference(load_source(student), fp32.tokenizer).texts
    sample = [fp32.inputs(fp32.tokenise(text)) for text in texts]
    for name, settings in OTHER_FORMS.items():
        # The open encoder has its own copy of the model.
        content = quantised(graph.read_bytes(), sample, **settings)
        (exported / MODEL_FILES["int8"]).write_bytes(content)
        forms[name] = OnnxEncoder.load(exported, precision="int8", verify=False)
    collection = Collection.read(data, "test")
    if find_spec("openvino") and find_spec("nncf"):
        titles = [each.title for each in collection.documents]
        forms |= openvino_forms(graph, fp32, titles)
    ids = [each.document_id for each in collection.documents]
    passages = [encoder_text(each.title, each.text) for each in collection.documents]
    embedded = encode_texts(OnnxEncoder.load(DEFAULT_ENCODER), passages)
    queries = [query.text for query in collection.queries]
    query_ids = [query.query_id for query in collection.queries]
    exact = fp32.encode(queries)
    found = {}
    for name, ms in measured_ms(forms, texts_of(exported, FORM_LENGTHS), rounds).items():
        encoded = forms[name].encode(queries)
        run = rank(query_ids, encoded, ids, embedded, 10)
        cosine = float(np.sum(encoded * exact, axis=1).mean())
        found[name] = {"ms": ms, "cosine": cosine, **evaluate(run, collection.qrels, [METRIC])}
    return found


class OpenVino:
    """A graph in OpenVINO on one thread, compiled for each number of tokens or for any."""

    def __init__(self, model: Any, encoder: OnnxEncoder, *, fixed: bool) -> None:
        self._model, self._encoder, self._fixed = model, encoder, fixed
        self._compiled = cache(self._compile)

    def _compile(self, tokens: int) -> Any:
        self._model.reshape({each.any_name: [1, tokens] for each in self._model.inputs})
        settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        core = import_module("openvino").Core()
        return core.compile_model(self._model, "CPU", settings).create_infer_request()

    def encode(self, texts: Sequence[str]) -> Embeddings:
        inputs = [self._encoder.inputs(self._encoder.tokenise(text)) for text in texts]
        lengths = [each["input_ids"].shape[1] if self._fixed else -1 for each in inputs]
        shared = {"share_inputs": True, "share_outputs": True}
        return np.array(
            [
                self._compiled(n).infer(each, **shared)[0][0].copy()
                for n, each in zip(lengths, inputs, strict=True)
            ]
        )


def openvino_forms(graph: Path, encoder: OnnxEncoder, texts: Sequence[str]) -> dict[str, OpenVino]:
    """OpenVINO with the fp32 graph, and with int8 by NNCF, calibrated on `texts`."""
    nncf, openvino = import_module("nncf"), import_module("openvino")
    # The operators of OpenVINO's own format have the unique names that NNCF needs.
    own = graph.with_suffix(".xml")
    openvino.save_model(openvino.Core().read_model(graph), own, compress_to_fp16=False)
    fp32 = openvino.Core().read_model(own)
    samples = nncf.Dataset(texts, lambda text: encoder.inputs(encoder.tokenise(text)))
    int8 = nncf.quantize(fp32, samples, model_type=nncf.ModelType.TRANSFORMER)
    models = {"fp32": fp32, "int8": int8}
    return {
        f"OpenVINO, {name}, {'compiled for each length' if fixed else 'any length'}": OpenVino(
            model.clone(), encoder, fixed=fixed
        )
        for name, model in models.items()
        for fixed in (False, True)
    }


def measure_shipped(folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds by encoder and tokens, tokenising included."""
    encoders: dict[str, Any] = {**named_peers(folder, threads=1)}
    for manifest in sorted(DEFAULT_ENCODER.parent.glob("*/manifest.json")):
        encoder = OnnxEncoder.load(manifest.parent)
        encoders[f"{manifest.parent.name}, {encoder.precision}"] = encoder
    texts = texts_of(DEFAULT_ENCODER, SHIPPED_LENGTHS)
    return measured_ms(encoders, texts, rounds)


def measure_paper_sizes(folder: Path, rounds: int) -> dict[tuple[int, str], dict[str, float]]:
    """Milliseconds by (layers, runtime) and tokens, without tokenising, of random weights."""
    encoders: dict[tuple[int, str], Any] = {}
    for layers in PAPER_MS:
        source, exported = folder / f"torch-{layers}", folder / f"onnx-{layers}"
        tower = random_tower(source, layers)
        with quiet():
            export_encoder(source, exported, precisions=["fp32", "int8"])
        (source / "model.safetensors").unlink()
        fp32, int8 = (OnnxEncoder.load(exported, precision=p) for p in ("fp32", "int8"))
        encoders[layers, "torch"] = Tokenised(fp32, tower)
        encoders[layers, "fp32"] = Tokenised(fp32)
        encoders[layers, "int8"] = Tokenised(int8)
    texts = texts_of(folder / f"onnx-{layers}", PAPER_LENGTHS)
    return measured_ms(encoders, texts, rounds)


def random_tower(folder: Path, layers: int) -> Tower:
    """BERT-base with `layers` layers, random weights and the teacher's word pieces."""
    torch.manual_seed(layers)
    tokenizer = transformers.AutoTokenizer.from_pretrained(torch_weights())
    config = transformers.BertConfig(vocab_size=len(tokenizer), num_hidden_layers=layers)
    plain = folder.with_name(f"{folder.name}-plain")
    with quiet():
        transformers.BertModel(config).save_pretrained(plain)
        tokenizer.save_pretrained(plain)
    tower = Tower.load(TowerSettings(model=plain, pooling="cls", max_tokens=64)).eval()
    tower.save(folder)
    (plain / "model.safetensors").unlink()
    return tower


def texts_of(directory: Path, lengths: Sequence[int]) -> dict[int, list[str]]:
    """Texts of these lengths in the tokens of an encoder directory."""
    return texts_of_length((directory / TOKENIZER_FILE).read_text("utf-8"), lengths)


def measured_ms(
    encoders: Mapping[Name, Any], texts: Mapping[int, Sequence[str]], rounds: int
) -> dict[Name, dict[str, float]]:
    """Median processor time in milliseconds; the lengths are strings, as in JSON."""
    seconds = measure_latencies(encoders, texts, rounds=rounds, seconds=90, clock=time.process_time)
    return {n: {str(k): 1000 * v for k, v in each.items()} for n, each in seconds.items()}


if __name__ == "__main__":
    main()
