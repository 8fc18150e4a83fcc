"""Traces a torch encoder as one ONNX graph, from token ids and mask to normalised embeddings."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from export.errors import ExportError
from export.graphs.edits import OPSET, OUTPUT_NAME, drop_unused
from export.graphs.lookup import lookup_graph
from training.model.lookup import is_lookup
from training.model.quiet import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

LARGEST_BYTES = 2_000_000_000
"""The limit of one ONNX file, minus some room for the graph."""

# The name of the output in the exporter and in Sentence Transformers.
_EXPORTED_OUTPUT = "sentence_embedding"


def export_graph(
    model: "SentenceTransformer", path: Path, *, is_right: Callable[[Path], bool]
) -> list[str]:
    """Write `model` as a single fp32 file, with as many operators fused as `is_right` allows.

    The inputs are input_ids, attention_mask and token_type_ids, as far as the graph uses them,
    int64 (batch, tokens). The one output is "embedding", float32 (batch, dim), pooled, projected
    and normalised.

    :returns: The names of the inputs.
    :raises ExportError: When the exporter does not support the architecture, the weights do not fit
        one file, or no form of the graph computes the same as torch.
    """
    size_bytes = sum(weight.nelement() * 4 for weight in model.parameters())
    if size_bytes > LARGEST_BYTES:
        raise ExportError(
            f"the model has {size_bytes / 1e9:.1f} GB of weights, but one ONNX file holds "
            f"{LARGEST_BYTES / 1e9:.0f} GB"
        )
    if is_lookup(model):
        onnx.save_model(lookup_graph(model[0].embedding.weight.detach().numpy()), path)
        if is_right(path):
            return ["input_ids"]
        raise ExportError("the graph of the look-up encoder does not compute the same as torch")
    with tempfile.TemporaryDirectory() as folder, quiet():
        plain = Path(folder) / "plain.onnx"
        onnx.save_model(_export(model, Path(folder)), plain)
        for candidate in candidates(plain, model[0].auto_model.config):
            onnx.save_model(candidate, path)
            if is_right(path):
                return [node.name for node in candidate.graph.input]
    raise ExportError(
        f"the exported {type(model[0].auto_model).__name__} does not compute the same as torch"
    )


def _export(model: "SentenceTransformer", folder: Path) -> onnx.ModelProto:
    from optimum.exporters.onnx import onnx_export_from_model

    from export.graphs.simplification import simplified

    try:
        onnx_export_from_model(
            simplified(model),
            folder / "exported",
            opset=OPSET,
            task="feature-extraction",
            do_validation=False,
        )
        exported = onnx.load_model(folder / "exported" / "model.onnx")
    except Exception as error:  # torch, optimum and onnx raise many types
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ExportError(
            f"a {type(model[0].auto_model).__name__} cannot be exported to ONNX: {reason}"
        ) from error
    keep_one_output(exported, _EXPORTED_OUTPUT, OUTPUT_NAME)
    return exported


def keep_one_output(model: onnx.ModelProto, exported: str, name: str) -> None:
    """Remove all outputs but one, and name the inputs, this output and the dimensions.

    :raises ExportError: When there is no output of the name `exported`.
    """
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


def candidates(plain: Path, config: Any) -> Iterator[onnx.ModelProto]:
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
        yield fused.model
    yield onnx.load_model(plain)
