"""Quantises an fp32 graph to int8, after a preparation for a small loss.

Weights have 7 bits and a scale for each channel. With 8 bits, products saturate on processors
without VNNI, and embeddings would depend on the machine.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from export.graphs.edits import PRODUCTS, add_weights, drop_unused, float_weights, replace_nodes
from export.graphs.outliers import Inputs, balance_channels, separate_outlier_neurons
from training.model.quiet import quiet

_SMALLEST_TABLE = 1 << 16
# Input, weights, bias and mask.
_INPUTS_OF_QATTENTION = 4
_UNKNOWN_TO_QATTENTION = {"qkv_hidden_sizes", "rotary_embedding_dim"}


def quantised(graph: bytes, sample: Sequence[Inputs], **other: Any) -> bytes:
    """The int8 form of an fp32 graph, which computes the scales of activations for each text.

    :param sample: Texts that the ranges of channels are measured on.
    :param other: Other arguments for `quantize_dynamic`, to compare them.
    """
    model = onnx.ModelProto.FromString(graph)
    balance_channels(model, sample)
    outliers = separate_outlier_neurons(model)
    attention = [node.name for node in model.graph.node if _is_float_attention(node)]
    with tempfile.TemporaryDirectory() as folder, quiet():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        source, target = Path(folder) / "prepared.onnx", Path(folder) / "quantised.onnx"
        onnx.save_model(model, source)
        settings = {
            "op_types_to_quantize": list(PRODUCTS),
            "per_channel": True,
            "reduce_range": True,
            "weight_type": QuantType.QInt8,
            "nodes_to_exclude": [*outliers, *attention],
            # ONNX cannot infer the types of fused operators, which are all float.
            "extra_options": {"DefaultTensorType": onnx.TensorProto.FLOAT},
        }
        quantize_dynamic(source, target, **(settings | other))
        found = onnx.load_model(target)
    _quantise_tables(found)
    drop_unused(found)
    content: bytes = found.SerializeToString()
    return content


def _is_float_attention(node: onnx.NodeProto) -> bool:
    """Whether QAttention lacks an input or attribute of this node, which would be lost."""
    return node.op_type == "Attention" and (
        any(node.input[_INPUTS_OF_QATTENTION:])
        or any(attribute.name in _UNKNOWN_TO_QATTENTION for attribute in node.attribute)
    )


def _quantise_tables(model: onnx.ModelProto) -> None:
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
