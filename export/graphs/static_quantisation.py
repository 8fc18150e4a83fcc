"""Quantises an fp32 graph to int8 with activation scales that are fixed by calibration.

With fixed scales, an embedding does not depend on the other texts of a batch. The graph is that of
dynamic quantisation with constants instead of measured ranges. quantize_static of ONNX Runtime is
not used: it does not support fused attention, and without it a short query takes 1.5 times as long.
It can also quantise sums, softmax and scores, which lowers the cosine by 0.1. As in the dynamic
graph, these stay float32:

- softmax and the products of scores, which are part of QAttention;
- GELU and layer normalisation, which have no integer operator;
- the outlier neurons, which would leave no resolution for the others;
- pooling and normalisation, a few operators on one vector.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from export.graphs.activations import Inputs, observe
from export.graphs.edits import (
    Weights,
    add_weights,
    drop_unused,
    float_weights,
    products,
    replace_nodes,
)
from export.graphs.quantisation import Prepared, quantise_tables

_CONTRIBUTED = "com.microsoft"
_LARGEST_ACTIVATION = 255
_LARGEST_WEIGHT = 64  # 7 bits: the sum of two products with activations fits 16 bits


@dataclass(frozen=True, slots=True)
class _Integers:
    """The names of quantised values, their scale and their zero point (empty for zero)."""

    values: str
    scale: str
    zero_point: str = ""


def quantise_statically(prepared: Prepared, target: Path, calibration: Sequence[Inputs]) -> None:
    """Write the int8 graph with constant activation scales.

    A scale covers the range of its activation over the texts of `calibration`. Clipping of rare
    values by percentile, squared error or entropy changed the mean cosine of all-MiniLM-L6-v2 by
    less than 0.0004, up or down.
    """
    model = onnx.ModelProto()
    model.CopyFrom(prepared.model)
    weights = float_weights(model)
    nodes = [node for node in products(model, weights) if node.name not in prepared.kept_in_float]
    ranges = _ranges(model, [node.input[0] for node in nodes], calibration)
    following = dict(_biases(model, weights))
    activations: dict[str, _Integers] = {}
    replacements: dict[str, list[onnx.NodeProto]] = {}
    for number, node in enumerate(nodes):
        steps = replacements.setdefault(node.output[0], [])
        if (name := node.input[0]) not in activations:
            into = _activation(model, f"activation_{len(activations)}", ranges[name])
            inputs = [name, into.scale, into.zero_point]
            steps.append(helper.make_node("QuantizeLinear", inputs, [into.values], into.values))
            activations[name] = into
        matrix = _matrix(model, f"weights_{number}", weights[node.input[1]])
        if node.op_type == "Attention":
            steps.append(_attention(node, activations[name], matrix))
            continue
        bias, total = following.get(node.output[0], ("", node.output[0]))
        steps.append(_product(node.name, activations[name], matrix, bias, total))
        if bias:
            replacements[total] = []
    replace_nodes(model, replacements)
    quantise_tables(model)
    drop_unused(model)
    onnx.save_model(model, target)


def _ranges(
    model: onnx.ModelProto, names: Sequence[str], calibration: Sequence[Inputs]
) -> dict[str, tuple[float, float]]:
    """The range of each of `names`, extended to include zero."""
    ranges: dict[str, tuple[float, float]] = {}
    for activations in observe(model, list(dict.fromkeys(names)), calibration):
        for name, values in activations.items():
            lowest, highest = ranges.get(name, (0.0, 0.0))
            ranges[name] = min(lowest, float(values.min())), max(highest, float(values.max()))
    return ranges


def _biases(
    model: onnx.ModelProto, weights: Mapping[str, Weights]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Values that are only used in the addition of a constant vector: name, (vector, sum)."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for name, (first, *others) in readers.items():
        if first.op_type == "Add" and not others:
            bias = next((summand for summand in first.input if summand != name), "")
            if bias in weights and weights[bias].ndim == 1:
                yield name, (bias, first.output[0])


def _activation(model: onnx.ModelProto, name: str, range_: tuple[float, float]) -> _Integers:
    lowest, highest = range_
    scale = (highest - lowest) / _LARGEST_ACTIVATION or 1.0
    zero_point = np.round(-lowest / scale).astype(np.uint8)
    return _Integers(
        values=name,
        scale=add_weights(model, f"{name}_scale", np.array(scale, dtype=np.float32)),
        zero_point=add_weights(model, f"{name}_zero_point", zero_point),
    )


def _matrix(model: onnx.ModelProto, name: str, values: Weights) -> _Integers:
    """Quantised weights (inputs, outputs) with a scale for each output."""
    scale = np.abs(values).max(axis=0) / np.float32(_LARGEST_WEIGHT)
    scale[scale == 0] = 1
    return _Integers(
        values=add_weights(model, name, np.round(values / scale).astype(np.int8)),
        scale=add_weights(model, f"{name}_scale", scale),
    )


def _attention(node: onnx.NodeProto, activation: _Integers, matrix: _Integers) -> onnx.NodeProto:
    bias, mask = node.input[2], node.input[3] if len(node.input) > 3 else ""
    quantised = helper.make_node(
        "QAttention",
        [
            activation.values,
            matrix.values,
            bias,
            activation.scale,
            matrix.scale,
            mask,
            activation.zero_point,
            matrix.zero_point,
        ],
        node.output,
        node.name,
        domain=_CONTRIBUTED,
    )
    quantised.attribute.extend(node.attribute)
    return quantised


def _product(
    name: str, activation: _Integers, matrix: _Integers, bias: str, output: str
) -> onnx.NodeProto:
    inputs = [
        activation.values,
        matrix.values,
        activation.scale,
        matrix.scale,
        activation.zero_point,
        matrix.zero_point,
        bias,
    ]
    return helper.make_node("MatMulIntegerToFloat", inputs, [output], name, domain=_CONTRIBUTED)
