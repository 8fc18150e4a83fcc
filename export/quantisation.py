"""An fp32 graph to int8, prepared so that it loses little.

Weights have a scale for each channel and 7 bits: with 8, the products of processors without VNNI
saturate, and an embedding would depend on the machine.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from export.activations import Inputs
from export.graph_edits import PRODUCTS, add_weights, drop_unused, float_weights, replace_nodes
from export.outliers import balance_channels, separate_outlier_neurons
from training.quiet import quiet

_SMALLEST_TABLE = 1 << 16
# Input, weights, bias and mask.
_INPUTS_OF_QATTENTION = 4
_UNKNOWN_TO_QATTENTION = {"qkv_hidden_sizes", "rotary_embedding_dim"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """An fp32 graph that computes the same without outliers in the way of int8.

    The products named in `kept_in_float` are no integer products: those of the outliers, and forms
    of attention that have no integer form.
    """

    model: onnx.ModelProto
    kept_in_float: tuple[str, ...]


def prepare(source: Path, sample: Sequence[Inputs]) -> Prepared:
    """Clear the graph in `source` of outliers.

    :param sample: Texts from which the ranges of channels are learned.
    """
    model = onnx.load_model(source)
    balance_channels(model, sample)
    outliers = separate_outlier_neurons(model)
    attention = [node.name for node in model.graph.node if _is_float_attention(node)]
    return Prepared(model, (*outliers, *attention))


def quantise_dynamically(prepared: Prepared, target: Path) -> None:
    """Write the int8 graph that takes the scales of activations from each text, as it comes."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        source = Path(folder) / "prepared.onnx"
        onnx.save_model(prepared.model, source)
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=list(PRODUCTS),
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=list(prepared.kept_in_float),
            # ONNX does not know what the fused operators give, which is float throughout.
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
    quantised = onnx.load_model(target)
    quantise_tables(quantised)
    drop_unused(quantised)
    onnx.save_model(quantised, target)


def _is_float_attention(node: onnx.NodeProto) -> bool:
    """Whether QAttention lacks an input or an attribute of this node; the quantiser drops it."""
    return node.op_type == "Attention" and (
        any(node.input[_INPUTS_OF_QATTENTION:])
        or any(attribute.name in _UNKNOWN_TO_QATTENTION for attribute in node.attribute)
    )


def quantise_tables(model: onnx.ModelProto) -> None:
    """Store tables that are looked up by row, such as those of words, in 8 bits.

    Each row has its own scale, since rare words differ much in range.
    """
    weights = float_weights(model)
    replacements = {}
    for node in model.graph.node:
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if node.op_type != "Gather" or node.input[0] not in weights or axis != 0:
            continue
        table = weights[node.input[0]]
        if table.ndim != 2 or table.size < _SMALLEST_TABLE:
            continue
        scale = np.abs(table).max(axis=1, keepdims=True) / np.float32(127)
        scale[scale == 0] = 1
        (result,), place = node.output, node.input[1]
        rows = add_weights(model, f"{result}_rows", np.round(table / scale).astype(np.int8))
        scales = add_weights(model, f"{result}_scales", scale)
        row, factor, number = f"{result}_row", f"{result}_factor", f"{result}_number"
        replacements[result] = [
            helper.make_node("Gather", [rows, place], [row], row),
            helper.make_node("Gather", [scales, place], [factor], factor),
            helper.make_node("Cast", [row], [number], number, to=onnx.TensorProto.FLOAT),
            helper.make_node("Mul", [number, factor], [result], result),
        ]
    replace_nodes(model, replacements)
