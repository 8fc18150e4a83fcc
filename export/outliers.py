"""Clears the outliers of a transformer out of the way of int8, leaving its function as it was.

Quantisation gives each input of a product one scale, over all tokens and channels, so that a few
outliers leave little resolution to all else. Transformers have them at two known places.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from export.activations import Inputs, observe
from export.graph_edits import (
    Weights,
    add_weights,
    float_weights,
    products,
    replace_nodes,
    replace_weights,
)

# A neuron is an outlier if its largest outgoing weight is this many times the median neuron's.
_OUTLIER_RATIO = 8.0
_MOST_OUTLIERS = 8
# How much of the difference in range between channels moves from the inputs into the weights.
_MIGRATION = 0.5

_NORMALISATIONS = ("LayerNormalization", "SkipLayerNormalization", "EmbedLayerNormalization")


def balance_channels(model: onnx.ModelProto, sample: Sequence[Inputs]) -> None:
    """Divide what products read after a normalisation by a factor per channel.

    The weights that read it are multiplied by the same factors (Xiao et al. 2023, SmoothQuant,
    equations 3 and 4). The ranges of the channels are those over the texts of `sample`.
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
        # The quantiser calls the scale of a tensor by its name and "_scale": not to be taken.
        scale = add_weights(model, f"reciprocal_{number}", 1 / factor)
        divide = helper.make_node("Mul", [channels, scale], [balanced], balanced)
        replacements[nodes[0].output[0]] = [divide, nodes[0]]
    replace_nodes(model, replacements)


def separate_outlier_neurons(model: onnx.ModelProto) -> list[str]:
    """Compute the few outlier neurons of each feed-forward block apart from the others.

    In a block gelu(x·A + b)·B, single neurons take values many times those of all others, and the
    weights of their rows in B stand out as much: so they are found without any text. Returns the
    names of the nodes that compute them, which must stay fp32.
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
    """The largest magnitude that each channel (last axis) of `names` takes over the sample."""
    ranges: dict[str, Weights] = {}
    for activations in observe(model, names, sample):
        for name, values in activations.items():
            largest = np.abs(values).reshape(-1, values.shape[-1]).max(axis=0)
            ranges[name] = np.maximum(ranges.get(name, largest), largest)
    return ranges


def _used(values: Weights) -> Weights:
    """`values`, such that a channel that is never used asks for no endless factor."""
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
