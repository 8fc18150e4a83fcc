"""all-MiniLM-L6-v2 as sentence-transformers runs it: in torch, and in ONNX Runtime with int8.

    python -m benchmarks.peers OUT [--layers 0,5]

writes a Sentence Transformers directory with an int8 ONNX model, for the plain service.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnxruntime
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.backend import export_dynamic_quantized_onnx_model

from swiftlet.encoders import torch_weights
from swiftlet.evaluation.machine import cpu_features
from swiftlet.retrieval.types import Embeddings

CPU, INT8_FILE = "CPUExecutionProvider", "onnx/model_int8.onnx"
TORCH = "sentence-transformers, torch fp32, 6 layers"
INT8 = "sentence-transformers, ONNX int8, {} layers"
QUERY_LAYERS = (0, 5)
"""The layers of the peer with two layers. Any two layers are equally fast. Those of the encoder
that ships are trained further, and their torch weights are not published."""


class Peer:
    """A model of sentence-transformers as an encoder, tokenising included."""

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Embeddings (n, dim), normalised."""
        found: Embeddings = self.model.encode(
            list(texts), batch_size=32, normalize_embeddings=True, show_progress_bar=False
        )
        return found


def torch_peer() -> Peer:
    """The model in torch, fp32, with the threads of torch's own setting."""
    return Peer(SentenceTransformer(str(torch_weights()), device="cpu"))


def int8_peer(directory: Path, *, threads: int, file: str = INT8_FILE) -> Peer:
    """The model of a directory that `export_int8_peer` has written."""
    session = onnxruntime.SessionOptions()
    session.intra_op_num_threads = threads
    settings = {"provider": CPU, "session_options": session, "file_name": file}
    model = SentenceTransformer(str(directory), backend="onnx", device="cpu", model_kwargs=settings)
    return Peer(model)


def named_peers(folder: Path, *, threads: int) -> dict[str, Peer]:
    """The model in torch, and the int8 peers, which are written into `folder`."""
    int8 = {INT8.format(layers): each for layers, each in int8_directories(folder).items()}
    return {TORCH: torch_peer(), **{n: int8_peer(d, threads=threads) for n, d in int8.items()}}


def int8_directories(folder: Path) -> dict[int, Path]:
    """The int8 peers with all layers and with two, written into `folder`, by number of layers."""
    chosen = {6: None, len(QUERY_LAYERS): QUERY_LAYERS}
    return {n: export_int8_peer(folder / f"peer-{n}", layers) for n, layers in chosen.items()}


def export_int8_peer(out: Path, layers: Sequence[int] | None = None) -> Path:
    """Write the model, or some of its layers, as sentence-transformers quantises it dynamically."""
    with tempfile.TemporaryDirectory() as folder:
        model = SentenceTransformer(str(torch_weights()), device="cpu")
        if layers:
            transformer = model[0].auto_model
            kept = [transformer.encoder.layer[number] for number in layers]
            transformer.encoder.layer = torch.nn.ModuleList(kept)
            transformer.config.num_hidden_layers = len(kept)
        model.save(folder)
        settings = {"export": True, "provider": CPU}
        exported = SentenceTransformer(folder, backend="onnx", device="cpu", model_kwargs=settings)
        exported.save_pretrained(str(out))
        target = {"avx512_vnni": "avx512_vnni", "avx512f": "avx512"}
        best = next((target[each] for each in reversed(cpu_features()) if each in target), "avx2")
        export_dynamic_quantized_onnx_model(exported, best, str(out), file_suffix="int8")
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=lambda text: [int(layer) for layer in text.split(",")])
    print(export_int8_peer(**vars(parser.parse_args())))
