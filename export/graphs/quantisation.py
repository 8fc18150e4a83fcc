"""Quantises an fp32 graph to int8, after a preparation for a small loss.

Weights have 7 bits and a scale for each channel. With 8 bits, products saturate on processors
without VNNI, and embeddings would depend on the machine.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from export.graphs.activations import Inputs
from export.graphs.edits import PRODUCTS, add_weights, drop_unused, float_weights, replace_nodes
from export.graphs.outliers import balance_channels, separate_outlier_neurons
from training.model.quiet import quiet

_SMALLEST_TABLE = 1 << 16
# Input, weights, bias and mask.
_INPUTS_OF_QATTENTION = 4
_UNKNOWN_TO_QATTENTION = {"qkv_hidden_sizes", "rotary_embedding_dim"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """An fp32 graph that is ready for int8.

    The nodes named in `kept_in_float` stay float: those of the outliers, and attention that has no
    integer operator.
    """

    model: onnx.ModelProto
    kept_in_float: tuple[str, ...]


def prepare(source: Path, sample: Sequence[Inputs]) -> Prepared:
    """Prepare the graph in `source` for int8.

    :param sample: Texts that the ranges of channels are measured on.
    """
    model = onnx.load_model(source)
    balance_channels(model, sample)
    outliers = separate_outlier_neurons(model)
    attention = [node.name for node in model.graph.node if _is_float_attention(node)]
    return Prepared(model, (*outliers, *attention))


def quantise_dynamically(prepared: Prepared, target: Path, **other: Any) -> None:
    """Write the int8 graph that computes the scales of activations for each text.

    :param other: Other arguments for `quantize_dynamic`, to compare them.
    """
    with tempfile.TemporaryDirectory() as folder, quiet():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        source = Path(folder) / "prepared.onnx"
        onnx.save_model(prepared.model, source)
        settings = {
            "op_types_to_quantize": list(PRODUCTS),
            "per_channel": True,
            "reduce_range": True,
            "weight_type": QuantType.QInt8,
            "nodes_to_exclude": list(prepared.kept_in_float),
            # ONNX cannot infer the types of fused operators, which are all float.
            "extra_options": {"DefaultTensorType": onnx.TensorProto.FLOAT},
        }
        quantize_dynamic(source, target, **(settings | other))
    quantised = onnx.load_model(target)
    quantise_tables(quantised)
    drop_unused(quantised)
    onnx.save_model(quantised, target)


def _is_float_attention(node: onnx.NodeProto) -> bool:
    """Whether QAttention lacks an input or attribute of this node, which would be lost."""
    return node.op_type == "Attention" and (
        any(node.input[_INPUTS_OF_QATTENTION:])
        or any(attribute.name in _UNKNOWN_TO_QATTENTION for attribute in node.attribute)
    )


def quantise_tables(model: onnx.ModelProto) -> None:
    """Store embedding tables in 8 bits, with a scale for each row.

    The ranges of rows differ much, above all for rare words.
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
