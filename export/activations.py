"""What a graph computes on the way, text by text."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

Inputs = Mapping[str, NDArray[np.int64]]
"""The inputs of an encoder's graph for one text: name -> (1, tokens)."""

Activations = dict[str, NDArray[np.float32]]
"""Values inside the graph for one text: name -> (1, tokens, channels)."""


def observe(
    model: onnx.ModelProto, names: Sequence[str], sample: Sequence[Inputs]
) -> Iterator[Activations]:
    """The values that `names` take in the float32 graph of `model`, for each text of `sample`."""
    import onnxruntime

    if not names:  # to which a session would answer with every output
        return
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    tapped.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Texts this short gain nothing from more, and lose much where others use the cores too.
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        tapped.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    for feed in sample:
        yield dict(zip(names, session.run(list(names), dict(feed)), strict=True))
