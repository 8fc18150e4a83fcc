"""The graph of a look-up encoder: the vectors of all tokens, their sum, and its direction."""

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from export.graphs.edits import OPSET, OUTPUT_NAME

_IR_VERSION = 8


def lookup_graph(table: NDArray[np.float32]) -> bytes:
    """The graph from token ids (batch, tokens) to embeddings (batch, width).

    :param table: The vector of each token, (tokens, width).
    """
    weights = {"table": table, "tokens": np.array([1], np.int64)}
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["vectors"]),
        helper.make_node("ReduceSum", ["vectors", "tokens"], ["sum"], keepdims=0),
        helper.make_node("LpNormalization", ["sum"], [OUTPUT_NAME], axis=-1, p=2),
    ]
    dim = table.shape[1]
    graph = helper.make_graph(
        nodes,
        "lookup",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info(OUTPUT_NAME, TensorProto.FLOAT, ["batch", dim])],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model: bytes = helper.make_model(
        graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="swiftlet"
    ).SerializeToString()
    return model
