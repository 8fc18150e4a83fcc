"""An fp32 graph to int8 by ONNX Runtime's dynamic quantiser, prepared so that it loses little."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from export.graph_edits import PRODUCTS, add_weights, drop_unused, float_weights, replace_nodes
from export.outliers import Inputs, balance_channels, separate_outlier_neurons
from training.quiet import quiet

_SMALLEST_TABLE = 1 << 16


def quantise(source: Path, target: Path, sample: Sequence[Inputs]) -> None:
    """Write the int8 form of the graph in `source` to `target`.

    Weights have a scale for each channel and 7 bits: with 8, the products of processors without
    VNNI saturate, and an embedding would depend on the machine.

    :param sample: Texts from which the ranges of activations are learned.
    """
    model = onnx.load_model(source)
    balance_channels(model, sample)
    excluded = separate_outlier_neurons(model)
    with tempfile.TemporaryDirectory() as folder, quiet():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        prepared = Path(folder) / "prepared.onnx"
        onnx.save_model(model, prepared)
        quantize_dynamic(
            prepared,
            target,
            op_types_to_quantize=list(PRODUCTS),
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=excluded,
            # ONNX does not know what the fused operators give, which is float throughout.
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
    quantised = onnx.load_model(target)
    _quantise_tables(quantised)
    drop_unused(quantised)
    onnx.save_model(quantised, target)


def _quantise_tables(model: onnx.ModelProto) -> None:
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
