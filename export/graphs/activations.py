"""Reads intermediate values of an ONNX graph."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

Inputs = Mapping[str, NDArray[np.int64]]
"""The inputs of an encoder's graph for one text: name -> (1, tokens)."""

Activations = dict[str, NDArray[np.float32]]
"""Intermediate values of the graph for one text: name -> (1, tokens, channels)."""


def observe(
    model: onnx.ModelProto, names: Sequence[str], sample: Sequence[Inputs]
) -> Iterator[Activations]:
    """The values of `names` in the float32 graph of `model`, for each text of `sample`."""
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
        yield dict(zip(names, session.run(list(names), dict(feed)), strict=True))
