"""Prepares a transformer with outliers for int8 without a change of its function.

Quantisation uses one scale for all tokens and channels of an activation, so a few outliers leave
little resolution for all other values. Transformers have outliers in two known places.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from export.graphs.edits import (
    Weights,
    add_weights,
    float_weights,
    products,
    replace_nodes,
    replace_weights,
)

Inputs = Mapping[str, NDArray[np.int64]]
"""The inputs of a graph for one text: name -> (1, tokens)."""

# A neuron is an outlier if its largest outgoing weight is this many times the median neuron's.
_OUTLIER_RATIO = 8.0
_MOST_OUTLIERS = 8
# The share of the difference in range between channels that moves from activations into weights.
_MIGRATION = 0.5

_NORMALISATIONS = ("LayerNormalization", "SkipLayerNormalization", "EmbedLayerNormalization")


def balance_channels(model: onnx.ModelProto, sample: Sequence[Inputs]) -> None:
    """Divide the output of each normalisation by a factor per channel.

    The weights of the following products are multiplied by the same factors (Xiao et al. 2023,
    SmoothQuant, equations 3 and 4). The ranges of channels are measured on the texts of `sample`.
    """
    weights = float_weights(model)
    normalised = {n.output[0] for n in model.graph.node if n.op_type in _NORMALISATIONS}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in products(model, weights):
        if node.input[0] in normalised:
            readers.setdefault(node.input[0], []).append(node)
    ranges = _ranges(model, list(readers), sample)
    replacements = {}
    for number, (channels, nodes) in enumerate(readers.items()):
        largest = np.max([np.abs(weights[node.input[1]]).max(axis=1) for node in nodes], axis=0)
        factor = _used(ranges[channels]) ** _MIGRATION / _used(largest) ** (1 - _MIGRATION)
        factor = (factor / np.exp(np.log(factor).mean())).astype(np.float32)
        balanced = f"balanced_{number}"
        for node in nodes:
            replace_weights(model, node, 1, weights[node.input[1]] * factor[:, None])
            node.input[0] = balanced
        # The name must not end in "_scale", which the quantiser uses for its own scales.
        scale = add_weights(model, f"reciprocal_{number}", 1 / factor)
        divide = helper.make_node("Mul", [channels, scale], [balanced], balanced)
        replacements[nodes[0].output[0]] = [divide, nodes[0]]
    replace_nodes(model, replacements)


def separate_outlier_neurons(model: onnx.ModelProto) -> list[str]:
    """Compute the few outlier neurons of each feed-forward block in separate nodes.

    In a block gelu(x·A + b)·B, a few neurons have values many times larger than all others.
    Their rows in B also have much greater weights, so that they are found without any text.

    :returns: The names of the nodes that compute them. They must stay fp32.
    """
    weights = float_weights(model)
    producers = {name: node for node in model.graph.node for name in node.output}
    replacements = {}
    for number, last in enumerate(products(model, weights)):
        gelu = producers.get(last.input[0])
        first = producers.get(gelu.input[0]) if gelu and gelu.op_type == "BiasGelu" else None
        if not gelu or not first or not {first.input[1], gelu.input[1]} <= weights.keys():
            continue
        a, b, c = (weights[node.input[1]] for node in (first, gelu, last))
        outliers = _outlier_rows(c)
        if not len(outliers):
            continue
        name = f"outliers_{number}"
        parts = {"a": a[:, outliers], "b": b[outliers], "c": c[outliers]}
        small = {key: add_weights(model, f"{name}_{key}", part) for key, part in parts.items()}
        replace_weights(model, first, 1, _without(a, outliers, axis=1))
        replace_weights(model, gelu, 1, _without(b, outliers, axis=0))
        replace_weights(model, last, 1, _without(c, outliers, axis=0))
        total = last.output[0]
        last.output[0] = f"{name}_others"
        steps = [
            ("MatMul", [first.input[0], small["a"]], f"{name}_x", ""),
            ("BiasGelu", [f"{name}_x", small["b"]], f"{name}_gelu", gelu.domain),
            ("MatMul", [f"{name}_gelu", small["c"]], f"{name}_y", ""),
            ("Add", [f"{name}_others", f"{name}_y"], total, ""),
        ]
        replacements[last.output[0]] = [
            last,
            *(
                helper.make_node(kind, inputs, [output], f"{name}_{step}", domain=domain)
                for step, (kind, inputs, output, domain) in enumerate(steps)
            ),
        ]
    replace_nodes(model, replacements)
    return [node.name for nodes in replacements.values() for node in nodes[1:]]


def _ranges(
    model: onnx.ModelProto, names: list[str], sample: Sequence[Inputs]
) -> dict[str, Weights]:
    """The largest magnitude of each channel (last axis) of `names` over the sample."""
    ranges: dict[str, Weights] = {}
    for activations in _observed(model, names, sample):
        for name, values in zip(names, activations, strict=True):
            largest = np.abs(values).reshape(-1, values.shape[-1]).max(axis=0)
            ranges[name] = np.maximum(ranges.get(name, largest), largest)
    return ranges


def _observed(
    model: onnx.ModelProto, names: list[str], sample: Sequence[Inputs]
) -> Iterator[list[Weights]]:
    """The intermediate values of `names`, (1, tokens, channels) each, for each text."""
    import onnxruntime

    if not names:  # without names a session would return all outputs
        return
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    tapped.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # More threads do not help with short texts, and slow them down on a busy machine.
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        tapped.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    for feed in sample:
        yield session.run(names, dict(feed))


def _used(values: Weights) -> Weights:
    """`values` with a lower bound, so that the factor of an unused channel stays finite."""
    return np.maximum(values, max(1e-3 * float(values.max()), 1e-12))


def _outlier_rows(matrix: Weights) -> NDArray[np.int64]:
    largest = np.abs(matrix).max(axis=1)
    candidates = np.argsort(-largest, kind="stable")[:_MOST_OUTLIERS]
    return np.sort(candidates[largest[candidates] > _OUTLIER_RATIO * np.median(largest)])


def _without(values: Weights, places: NDArray[np.int64], axis: int) -> Weights:
    """A copy of `values` with zeros at `places` along `axis`."""
    result = values.copy()
    np.moveaxis(result, axis, 0)[places] = 0
    return result
