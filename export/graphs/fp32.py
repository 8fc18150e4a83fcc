"""The fp32 graph of a torch model: simplified, traced and fused, or of a table of token vectors.

Each operator takes at least about a microsecond, which counts for short queries. Operators without
an effect on a single text are removed.
"""

import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from export.errors import ExportError
from export.graphs.edits import OPSET, OUTPUT_NAME, drop_unused
from training.model.quiet import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

LARGEST_BYTES = 2_000_000_000
"""The limit of one ONNX file, minus some room for the graph."""

_IR_VERSION = 8

Features = dict[str, Tensor]


class MeanPooling(nn.Module):
    """The masked mean of token embeddings (batch, tokens, dim), as one matrix product."""

    def forward(self, features: Features) -> Features:
        """Add the sentence embedding (batch, dim)."""
        mask = features["attention_mask"].unsqueeze(1).to(torch.float32)
        total = (mask @ features["token_embeddings"]).squeeze(1)
        return {**features, "sentence_embedding": total / mask.sum(dim=2)}


class UnitLength(nn.Module):
    """The embedding, or each of its vectors, divided by its length."""

    def forward(self, features: Features) -> Features:
        """Replace the sentence embedding (batch, dim) or (batch, vectors, dim)."""
        embedding = features["sentence_embedding"]
        length = embedding.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        return {**features, "sentence_embedding": embedding / length}


class _Zero(nn.Module):
    """Replaces an embedding table after its only used row was added to another table."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero", torch.zeros(1))

    def forward(self, _ids: Tensor) -> Tensor:
        return self.zero  # type: ignore[return-value]


def simplified(model: "SentenceTransformer") -> "SentenceTransformer":
    """A copy of `model` with fewer operators that computes the same."""
    from sentence_transformers import SentenceTransformer

    modules: list[Any] = []
    for module in copy.deepcopy(model):
        kind = type(module).__name__
        if kind == "Pooling" and module.pooling_mode == "mean":
            modules.append(MeanPooling())
        elif kind in ("Normalize", "UnitVectors"):
            modules.append(UnitLength())
        else:
            modules.append(module)
    embeddings: Any = getattr(modules[0].auto_model, "embeddings", None)
    types = getattr(embeddings, "token_type_embeddings", None)
    words = getattr(embeddings, "word_embeddings", None)
    if isinstance(types, nn.Embedding) and isinstance(words, nn.Embedding):
        # Texts have one segment in retrieval, so all tokens are of type 0.
        with torch.no_grad():
            words.weight += types.weight[0]
        embeddings.token_type_embeddings = _Zero()
    return SentenceTransformer(modules=modules, device="cpu").eval()


def traced(model: Any, network: Any, *, task: str, exported: str, output: str) -> Iterator[bytes]:
    """The fp32 graph of `model` in several forms, of which the first ones are faster.

    The inputs are input_ids, attention_mask and token_type_ids, as far as the graph uses them,
    int64 (batch, tokens).

    :param network: The transformer of the model.
    :param task: What optimum exports the model for.
    :param exported: The name of the output in optimum.
    :param output: The name of the one output in the graph.
    :raises ExportError: When the exporter does not support the architecture, or the weights do not
        fit one file.
    """
    from optimum.exporters.onnx import onnx_export_from_model

    size_bytes = sum(weight.nelement() * 4 for weight in model.parameters())
    if size_bytes > LARGEST_BYTES:
        raise ExportError(
            f"the model has {size_bytes / 1e9:.1f} GB of weights, but one ONNX file holds "
            f"{LARGEST_BYTES / 1e9:.0f} GB"
        )
    with tempfile.TemporaryDirectory() as folder, quiet():
        place = Path(folder) / "exported"
        try:
            onnx_export_from_model(model, place, opset=OPSET, task=task, do_validation=False)
            graph = onnx.load_model(place / "model.onnx")
        except Exception as error:  # torch, optimum and onnx raise many types
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ExportError(
                f"a {type(network).__name__} cannot be exported to ONNX: {reason}"
            ) from error
        _keep_one_output(graph, exported, output)
        plain = Path(folder) / "plain.onnx"
        onnx.save_model(graph, plain)
        yield from _forms(plain, network.config)


def _keep_one_output(model: onnx.ModelProto, exported: str, name: str) -> None:
    """Remove all outputs but one, and name the inputs, this output and the dimensions."""
    graph = model.graph
    outputs = [output for output in graph.output if output.name == exported]
    if len(outputs) != 1:
        raise ExportError(f"the exported graph has no output {exported!r}")
    del graph.output[:]
    graph.output.extend(outputs)
    for node in graph.node:
        node.output[:] = [name if each == exported else each for each in node.output]
        node.input[:] = [name if each == exported else each for each in node.input]
    graph.output[0].name = name
    graph.output[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    used = {name for node in graph.node for name in node.input}
    inputs = [node for node in graph.input if node.name in used]
    del graph.input[:]
    graph.input.extend(inputs)
    for node in graph.input:
        batch, tokens = node.type.tensor_type.shape.dim
        batch.dim_param, tokens.dim_param = "batch", "tokens"


def _forms(plain: Path, config: Any) -> Iterator[bytes]:
    """The graph with all of BERT's fusions, with all but attention's, and without fusions."""
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    for attention in (True, False):
        options = FusionOptions("bert")
        options.enable_attention = attention
        # The mask, not a length, so that padding may be on either side.
        options.use_raw_attention_mask(True)
        # Not fused, since the int8 graph has an embedding table with a scale for each row.
        options.enable_embed_layer_norm = False
        # On CPUs this fusion makes a forward pass slower: by 13% at 10 tokens, 23% at 128.
        options.enable_skip_layer_norm = False
        try:
            fused = optimize_model(
                str(plain),
                model_type="bert",
                num_heads=getattr(config, "num_attention_heads", 0),
                hidden_size=getattr(config, "hidden_size", 0),
                optimization_options=options,
                # Fold constants, but use no layouts or operators that depend on this CPU.
                opt_level=1,
            )
        except Exception:  # noqa: BLE001, S112 - a form with fewer fusions follows
            continue
        fused.model.producer_name = "swiftlet"
        drop_unused(fused.model)
        yield fused.model.SerializeToString()
    yield plain.read_bytes()


def lookup_graph(table: NDArray[np.float32]) -> bytes:
    """The graph from token ids (batch, tokens) to embeddings (batch, width).

    :param table: The vector of each token, (tokens, width).
    """
    weights = {"table": table, "tokens": np.array([1], np.int64)}
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["vectors"]),
        helper.make_node("ReduceSum", ["vectors", "tokens"], ["sum"], keepdims=0),
        helper.make_node("LpNormalization", ["sum"], [OUTPUT_NAME], axis=-1, p=2),
    ]
    dim = table.shape[1]
    graph = helper.make_graph(
        nodes,
        "lookup",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info(OUTPUT_NAME, TensorProto.FLOAT, ["batch", dim])],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model: bytes = helper.make_model(
        graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="swiftlet"
    ).SerializeToString()
    return model
