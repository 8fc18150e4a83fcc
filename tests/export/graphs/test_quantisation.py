"""The preparations for int8 keep the function, and make rounding errors small."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.graphs.outliers import balance_channels, separate_outlier_neurons
from export.graphs.quantisation import quantised

WORDS, WIDTH, NEURONS = 5000, 32, 128
OUTLIER_NEURON, OUTLIER_CHANNEL = 77, 5


@pytest.fixture(scope="module")
def block() -> onnx.ModelProto:
    """A table of words, a normalisation and a feed-forward block, with the known outliers."""
    generator = np.random.default_rng(3)
    gamma, beta = np.ones(WIDTH), np.zeros(WIDTH)
    beta[OUTLIER_CHANNEL] = 30
    inward = generator.normal(0, 0.05, (WIDTH, NEURONS))
    outward = generator.normal(0, 0.05, (NEURONS, WIDTH))
    bias = np.zeros(NEURONS)
    bias[OUTLIER_NEURON] = 25
    outward[OUTLIER_NEURON] = 6
    table = generator.normal(0, 1, (WORDS, WIDTH)) * generator.uniform(0.1, 10, (WORDS, 1))
    constants = {
        "table": table, "gamma": gamma, "beta": beta,
        "inward": inward, "bias": bias, "outward": outward,
    }  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["words"], "words"),
            helper.make_node("LayerNormalization", ["words", "gamma", "beta"], ["x"], "norm"),
            helper.make_node("MatMul", ["x", "inward"], ["a"], "inward"),
            helper.make_node("BiasGelu", ["a", "bias"], ["h"], "gelu", domain="com.microsoft"),
            helper.make_node("MatMul", ["h", "outward"], ["embedding"], "outward"),
        ],
        "block",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["b", "t", WIDTH])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


SAMPLE = [{"input_ids": np.arange(n * 7, n * 7 + n + 1)[None]} for n in range(40)]


def run(model: onnx.ModelProto | bytes, feed: dict[str, np.ndarray]) -> np.ndarray:
    content = model if isinstance(model, bytes) else model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options).run(None, feed)[0]


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(model.SerializeToString())


def test_balanced_channels_compute_the_same(block):
    balanced = copied(block)
    balance_channels(balanced, SAMPLE)
    assert [node.op_type for node in balanced.graph.node].count("Mul") == 1
    for feed in SAMPLE[::8]:
        np.testing.assert_allclose(run(balanced, feed), run(block, feed), rtol=1e-3, atol=1e-3)


def test_outlier_neurons_are_found_by_their_weights_and_computed_apart(block):
    separate = copied(block)
    names = separate_outlier_neurons(separate)
    constants = {t.name: numpy_helper.to_array(t) for t in separate.graph.initializer}
    assert len(names) == 4
    apart = {v.shape for name, v in constants.items() if name.startswith("outliers_")}
    assert apart == {(WIDTH, 1), (1,), (1, WIDTH)}
    (rest,) = [value for name, value in constants.items() if name.startswith("outward_of_")]
    assert not rest[OUTLIER_NEURON].any()
    assert np.abs(rest).max() < 1
    for feed in SAMPLE[::8]:
        np.testing.assert_allclose(run(separate, feed), run(block, feed), rtol=1e-3, atol=1e-3)


def test_a_block_without_outliers_is_left_alone(block):
    plain = copied(block)
    for tensor in plain.graph.initializer:
        if tensor.name == "outward":
            values = numpy_helper.to_array(tensor).copy()
            values[OUTLIER_NEURON] = 0.05
            tensor.CopyFrom(numpy_helper.from_array(values, "outward"))
    assert separate_outlier_neurons(plain) == []
    assert [n.op_type for n in plain.graph.node] == [n.op_type for n in block.graph.node]


@pytest.fixture(scope="module")
def int8(block) -> bytes:
    """The block in int8."""
    return quantised(block.SerializeToString(), SAMPLE)


def test_int8_loses_less_than_the_quantiser_alone(block, int8, tmp_path):
    from onnxruntime.quantization import quantize_dynamic

    source, theirs = tmp_path / "fp32.onnx", tmp_path / "theirs.onnx"
    onnx.save_model(block, source)
    extra = {"DefaultTensorType": TensorProto.FLOAT}
    quantize_dynamic(source, theirs, per_channel=True, reduce_range=True, extra_options=extra)

    def error(model: bytes) -> float:
        # A constant in every embedding distinguishes no texts.
        exact = np.concatenate([run(block, feed)[0] for feed in SAMPLE])
        found = np.concatenate([run(model, feed)[0] for feed in SAMPLE])
        return float(np.std(found - exact) / np.std(exact - exact.mean(axis=0)))

    assert error(int8) < 0.2 * error(theirs.read_bytes())
    assert len(int8) < 0.4 * source.stat().st_size


def test_weights_have_7_bits_for_processors_with_saturating_products(int8):
    matrices = [
        numpy_helper.to_array(tensor)
        for tensor in onnx.load_model_from_string(int8).graph.initializer
        if tensor.data_type == TensorProto.INT8 and tensor.dims in ([32, 128], [128, 32])
    ]
    assert len(matrices) == 2
    # Two products of 255 with such weights still fit 16 bits.
    assert all(2 * 255 * np.abs(matrix.astype(int)).max() <= 2**15 - 1 for matrix in matrices)
    assert all(np.abs(matrix.astype(int)).max() >= 60 for matrix in matrices)


def test_attention_that_has_no_integer_form_stays_float():
    generator, width = np.random.default_rng(7), 8
    constants = {
        "qkv": generator.normal(size=(width, 3 * width)),
        "bias": generator.normal(size=3 * width),
        "relative": 5 * generator.normal(size=(1, 2, 4, 4)),
    }
    names = ["x", "qkv", "bias", "", "", "relative"]
    attention = helper.make_node(
        "Attention", names, ["y"], "attention", domain="com.microsoft", num_heads=2
    )
    graph = helper.make_graph(
        [attention],
        "attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "tokens", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "tokens", width])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    x = {"x": generator.normal(size=(1, 4, width)).astype(np.float32)}
    found = run(quantised(model.SerializeToString(), [x]), x)
    np.testing.assert_allclose(found, run(model, x), atol=1e-5)
