"""An fp32 graph to int8 with scales of activations that are fixed by calibration.

Nothing then depends on what shares a batch. The graph is the dynamic one with constants in the
place of measured ranges, and not what ONNX Runtime's quantize_static makes: that knows no fused
attention, and with attention in parts a short query takes half as long again. Where it quantises
sums, softmax and scores too, a tenth of the cosine is lost. These stay float32 here, as they do in
the dynamic graph:

- softmax and the products of scores, which run inside QAttention;
- GELU and layer normalisation, which have no integer form;
- the outlier neurons, whose range would leave no resolution to the others;
- pooling and normalisation, a few operators on one vector.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from export.activations import Inputs, observe
from export.graph_edits import (
    Weights,
    add_weights,
    drop_unused,
    float_weights,
    products,
    replace_nodes,
)
from export.quantisation import Prepared, quantise_tables

_CONTRIBUTED = "com.microsoft"
_LARGEST_ACTIVATION = 255
_LARGEST_WEIGHT = 64  # 7 bits, of which two products with an activation fit 16 bits


@dataclass(frozen=True, slots=True)
class _Integers:
    """The names of integers, of their scale and of their zero point (none: zero)."""

    values: str
    scale: str
    zero_point: str = ""


def quantise_statically(prepared: Prepared, target: Path, calibration: Sequence[Inputs]) -> None:
    """Write the int8 graph whose scales of activations are constants.

    A scale spans the least and the greatest value that its activation takes over the texts of
    `calibration`. To cut rare values off, by percentile, squared error or entropy, moved the mean
    cosine of all-MiniLM-L6-v2 by less than 0.0004, in either direction.
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
    """The least and the greatest value of each of `names`, zero among them."""
    ranges: dict[str, tuple[float, float]] = {}
    for activations in observe(model, list(dict.fromkeys(names)), calibration):
        for name, values in activations.items():
            lowest, highest = ranges.get(name, (0.0, 0.0))
            ranges[name] = min(lowest, float(values.min())), max(highest, float(values.max()))
    return ranges


def _biases(
    model: onnx.ModelProto, weights: Mapping[str, Weights]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """What is read by nothing but the addition of a constant vector, with that and the sum."""
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
    """Weights (inputs, outputs) as integers with a scale for each output."""
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
