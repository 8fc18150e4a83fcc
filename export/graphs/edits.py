"""Edits of ONNX graphs."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

OPSET = 17
OUTPUT_NAME = "embedding"

Weights = NDArray[np.float32]

PRODUCTS = ("MatMul", "Attention")
"""The operators with a matrix of weights as second input."""


def float_weights(model: onnx.ModelProto) -> dict[str, Weights]:
    """The float32 constants of the graph, by name."""
    return {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT
    }


def products(model: onnx.ModelProto, weights: Mapping[str, Weights]) -> Iterator[onnx.NodeProto]:
    """The nodes that multiply an activation by a constant matrix (inputs, outputs), in order."""
    for node in model.graph.node:
        matrix = weights.get(node.input[1]) if node.op_type in PRODUCTS else None
        if matrix is not None and matrix.ndim == 2:
            yield node


def add_weights(model: onnx.ModelProto, name: str, values: NDArray[np.generic]) -> str:
    """Add the constant `name`, and return its name."""
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(values, order="C"), name))
    return name


def replace_weights(
    model: onnx.ModelProto, node: onnx.NodeProto, place: int, values: Weights
) -> None:
    """Replace input `place` of `node` by `values`, for this node only."""
    name = f"{node.input[place]}_of_{node.output[0]}"
    node.input[place] = add_weights(model, name, values)


def replace_nodes(
    model: onnx.ModelProto, replacements: Mapping[str, Sequence[onnx.NodeProto]]
) -> None:
    """Replace nodes; the key is the first output of the old node."""
    nodes = [new for old in model.graph.node for new in replacements.get(old.output[0], [old])]
    # Protobuf messages in a list are freed with the list, hence the copies.
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def drop_unused(model: onnx.ModelProto) -> None:
    """Remove unused constants and operator sets."""
    graph = model.graph
    used = {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    versions = {opset.domain: opset.version for opset in model.opset_import}
    del model.opset_import[:]
    for domain in sorted({"", *(node.domain for node in graph.node)}):
        model.opset_import.append(onnx.helper.make_opsetid(domain, versions.get(domain, 1)))
    del graph.value_info[:]
