"""all-MiniLM-L6-v2 as sentence-transformers runs it: in torch, and in ONNX Runtime with int8.

    python -m benchmarks.peers OUT [--layers 0,5]

writes a Sentence Transformers directory with an int8 ONNX model, for the plain service.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnxruntime
from sentence_transformers import SentenceTransformer
from sentence_transformers.backend import export_dynamic_quantized_onnx_model

from measuring.machine import processor_kind
from swiftlet.encoders import torch_weights
from swiftlet.types import Embeddings
from training.model.towers import Tower, TowerSettings

CPU, INT8_FILE = "CPUExecutionProvider", "onnx/model_int8.onnx"
TORCH = "sentence-transformers, torch fp32, 6 layers"
INT8 = "sentence-transformers, ONNX int8, {} layers"
QUERY_LAYERS = (0, 5)
"""The layers of the peer with two layers. Any two layers are equally fast. Those of the encoder
that ships are trained further, and their torch weights are not published."""


TARGETS = {"AMX": "avx512_vnni", "AVX-512 VNNI": "avx512_vnni", "AVX-512 without VNNI": "avx512"}


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


def export_int8_peer(out: Path, layers: tuple[int, ...] | None = None) -> Path:
    """Write the model, or some of its layers, as sentence-transformers quantises it dynamically."""
    with tempfile.TemporaryDirectory() as folder:
        Tower.load(TowerSettings(torch_weights(), layers=layers)).save(Path(folder))
        settings = {"export": True, "provider": CPU}
        exported = SentenceTransformer(folder, backend="onnx", device="cpu", model_kwargs=settings)
        exported.save_pretrained(str(out))
        best = TARGETS.get(processor_kind(), "avx2")
        export_dynamic_quantized_onnx_model(exported, best, str(out), file_suffix="int8")
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=lambda text: tuple(map(int, text.split(","))))
    print(export_int8_peer(**vars(parser.parse_args())))
