"""all-MiniLM-L6-v2 as sentence-transformers runs it: in torch, and in ONNX Runtime with int8.

    python -m benchmarks.peers OUT [--layers 0,5]

writes a Sentence Transformers directory with an int8 ONNX model, for the plain service.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from swiftlet.encoders import torch_weights
from swiftlet.evaluation.machine import cpu_features
from swiftlet.retrieval.types import Embeddings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

INT8_FILE = "onnx/model_int8.onnx"
QUERY_LAYERS = (0, 5)
"""The layers of the peer with two layers. Any two layers are equally fast. Those of the encoder
that ships are trained further, and their torch weights are not published."""


class Peer:
    """A model of sentence-transformers as an encoder, tokenising included."""

    def __init__(self, model: "SentenceTransformer") -> None:
        self.model = model

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Embeddings (n, dim), normalised."""
        found: Embeddings = self.model.encode(
            list(texts), batch_size=32, normalize_embeddings=True, show_progress_bar=False
        )
        return found


def torch_peer() -> Peer:
    """The model in torch, fp32, with the threads of torch's own setting."""
    from sentence_transformers import SentenceTransformer

    return Peer(SentenceTransformer(str(torch_weights()), device="cpu"))


def int8_peer(directory: Path, *, threads: int) -> Peer:
    """The model of a directory that `export_int8_peer` has written."""
    import onnxruntime
    from sentence_transformers import SentenceTransformer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    settings = {
        "file_name": INT8_FILE, "provider": "CPUExecutionProvider", "session_options": options,
    }  # fmt: skip
    model = SentenceTransformer(str(directory), backend="onnx", device="cpu", model_kwargs=settings)
    return Peer(model)


def int8_directories(folder: Path) -> dict[int, Path]:
    """The int8 peers with all layers and with two, written into `folder`, by number of layers."""
    chosen = {6: (), len(QUERY_LAYERS): QUERY_LAYERS}
    return {n: export_int8_peer(folder / f"peer-{n}", layers) for n, layers in chosen.items()}


def export_int8_peer(directory: Path, layers: Sequence[int] = ()) -> Path:
    """Write the model, or some of its layers, as sentence-transformers quantises it dynamically."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.backend import export_dynamic_quantized_onnx_model

    with tempfile.TemporaryDirectory() as folder:
        model = SentenceTransformer(str(torch_weights()), device="cpu")
        if layers:
            transformer = model[0].auto_model
            kept = [transformer.encoder.layer[number] for number in layers]
            transformer.encoder.layer = torch.nn.ModuleList(kept)
            transformer.config.num_hidden_layers = len(kept)
        model.save(folder)
        exported = SentenceTransformer(
            folder, backend="onnx", device="cpu",
            model_kwargs={"export": True, "provider": "CPUExecutionProvider"},
        )  # fmt: skip
        exported.save_pretrained(str(directory))
        target = {"avx512_vnni": "avx512_vnni", "avx512f": "avx512"}
        best = next((target[each] for each in reversed(cpu_features()) if each in target), "avx2")
        export_dynamic_quantized_onnx_model(exported, best, str(directory), file_suffix="int8")
    return directory


def main() -> None:
    """Write a peer's directory."""
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", help="such as 0,5; default: all")
    options = parser.parse_args()
    layers = [int(layer) for layer in options.layers.split(",")] if options.layers else []
    print(export_int8_peer(options.out, layers))


if __name__ == "__main__":
    main()
