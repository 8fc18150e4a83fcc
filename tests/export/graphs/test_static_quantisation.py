"""Static int8 has fixed scales, which do not depend on the texts in a batch."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.encoder_directory import export_encoder
from export.graphs.quantisation import Prepared, prepare, quantise_dynamically
from export.graphs.static_quantisation import quantise_statically
from swiftlet.encoders import torch_weights
from swiftlet.encoders.encoder import MODEL_FILES, OnnxEncoder
from swiftlet.manifest import read_manifest
from training.model.towers import Tower, TowerSettings

INT8 = ["int8", "int8_static"]

QUERIES = [
    "how do volcanoes erupt",
    "measles vaccine efficacy in infants",
    "what is the capital city of south africa",
    "why do bees dance",
    "who was it",
    "is the moon moving away from the earth every year",
    "unemployment 1932",
    "when does ice become part of a glacier rather than snow",
]


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder directory of two layers of all-MiniLM-L6-v2, a query encoder of a usual size."""
    folder = tmp_path_factory.mktemp("two-layers")
    model = torch_weights()
    Tower.load(TowerSettings(model=model, layers=(0, 5), max_tokens=32)).save(folder / "model")
    export_encoder(folder / "model", folder / "out", precisions=INT8)
    return folder / "out"


def run(directory: Path, precision: str, rows: list[list[int]]) -> np.ndarray:
    """The graph's output for tokenised texts in one batch, padded to the longest."""
    ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)], mask[number, : len(row)] = row, 1
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(directory / MODEL_FILES[precision], options)
    return session.run(None, {"input_ids": ids, "attention_mask": mask})[0]


def test_real_weights_lose_little_and_dynamic_int8_is_the_default(two_layers):
    details = read_manifest(two_layers).details
    parity = details["parity"]["int8_static"]
    assert parity["mean_cosine"] > 0.998
    assert parity["min_cosine"] > 0.995
    assert details["precisions"] == INT8
    assert details["default_precision"] == "int8"
    assert OnnxEncoder.load(two_layers).precision == "int8"


def test_texts_of_the_same_length_in_a_batch_change_no_bit_of_a_static_embedding(two_layers):
    encoder = OnnxEncoder.load(two_layers, precision="int8_static")
    rows = [encoder.tokenise(query)[:6] for query in QUERIES]
    alone = [encoder.embed(row).tobytes() for row in rows]
    assert [row.tobytes() for row in run(two_layers, "int8_static", rows)] == alone


def test_other_texts_and_padding_change_a_static_embedding_by_rounding_alone(two_layers):
    moved = {}
    for precision in INT8:
        encoder = OnnxEncoder.load(two_layers, precision=precision)
        rows = [encoder.tokenise(query) for query in QUERIES]
        alone = np.stack([encoder.embed(row) for row in rows])
        moved[precision] = np.abs(run(two_layers, precision, rows) - alone).max()
    assert moved["int8_static"] < 1e-6
    # Hence the calibration: with scales from the batch, other texts change an embedding.
    assert moved["int8"] > 1e-3


@pytest.mark.parametrize("precision", INT8)
def test_a_query_gives_identical_bytes_alone_and_under_concurrent_load(precision, two_layers):
    encoder = OnnxEncoder.load(two_layers, precision=precision)
    alone = {query: encoder.encode([query]).tobytes() for query in QUERIES}
    assert len(set(alone.values())) == len(QUERIES)
    with ThreadPoolExecutor(6) as pool:
        load = [query for _ in range(40) for query in QUERIES]
        found = list(pool.map(lambda query: encoder.encode([query]).tobytes(), load))
    assert found == [alone[query] for query in load]
    again = OnnxEncoder.load(two_layers, precision=precision)
    assert [again.encode([query]).tobytes() for query in QUERIES] == list(alone.values())


def test_every_product_with_weights_is_one_of_integers_with_constant_scales(two_layers, tmp_path):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(
        two_layers / MODEL_FILES["int8_static"], options, providers=["CPUExecutionProvider"]
    )
    # The graph after the runtime's optimisation.
    graph = onnx.load_model(tmp_path / "optimised.onnx").graph
    kinds = Counter(node.op_type for node in graph.node)
    assert kinds["QAttention"] == 2
    assert kinds["MatMulIntegerToFloat"] == 6
    assert kinds["QuantizeLinear"] == 8
    assert not kinds.keys() & {"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "Attention"}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "QuantizeLinear":
            assert numpy_helper.to_array(constants[node.input[1]]).shape == ()
    kept = [
        constants[node.input[1]].dims
        for node in graph.node
        if node.op_type == "MatMul" and node.input[1] in constants
    ]
    # The few outlier neurons of the first block; pooling multiplies with no weights.
    assert all(min(dims) <= 8 for dims in kept)


WIDTH = 8


def small(nodes: list[onnx.NodeProto], **constants: np.ndarray) -> Prepared:
    """A graph x (batch, tokens, 8) -> y of `nodes`."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "tokens", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "tokens", None])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return Prepared(helper.make_model(graph, opset_imports=opsets, ir_version=10), ())


def computed(path: Path, x: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(path).run(None, {"x": x})[0]


def test_values_in_the_calibrated_range_are_exact_to_a_step_and_others_are_clipped(tmp_path):
    prepared = small([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], w=np.eye(WIDTH))
    calibration = [{"x": np.linspace(-1, 3, WIDTH, dtype=np.float32)[None, None]}]
    quantise_statically(prepared, tmp_path / "out.onnx", calibration)
    x = np.array([[[-1, 0, 0.5, 1, 2, 3, 5, -9]]], dtype=np.float32)
    step = 4 / 255
    expected = [-1, 0, 0.5, 1, 2, 3, 3, -1]
    found = computed(tmp_path / "out.onnx", x)[0, 0]
    np.testing.assert_allclose(found, expected, atol=step)
    # Padding and what is masked are zero, which must stay so.
    assert found[1] == 0


def test_products_that_read_the_same_share_its_integers_and_biases_are_added_within(tmp_path):
    generator = np.random.default_rng(5)
    weights = {name: generator.normal(size=(WIDTH, WIDTH)) for name in "ab"}
    prepared = small(
        [
            helper.make_node("MatMul", ["x", "a"], ["xa"], "first"),
            helper.make_node("Add", ["bias", "xa"], ["p"], "add"),
            helper.make_node("MatMul", ["x", "b"], ["xb"], "second"),
            # The sum of two products is no bias, and neither is what another node reads too.
            helper.make_node("Add", ["p", "xb"], ["q"], "sum"),
            helper.make_node("Add", ["xb", "bias"], ["r"], "shared"),
            helper.make_node("Add", ["q", "r"], ["y"], "total"),
        ],
        bias=generator.normal(size=WIDTH),
        **weights,
    )
    x = generator.normal(size=(1, 3, WIDTH)).astype(np.float32)
    quantise_statically(prepared, tmp_path / "out.onnx", [{"x": x}])
    graph = onnx.load_model(tmp_path / "out.onnx").graph
    kinds = Counter(node.op_type for node in graph.node)
    assert kinds == {"QuantizeLinear": 1, "MatMulIntegerToFloat": 2, "Add": 3}
    onnx.save_model(prepared.model, tmp_path / "fp32.onnx")
    expected = computed(tmp_path / "fp32.onnx", x)
    error = np.abs(computed(tmp_path / "out.onnx", x) - expected).max()
    assert 0 < error < 0.03 * np.abs(expected).max()


def test_an_activation_that_is_always_zero_and_weights_that_are_do_no_harm(tmp_path):
    weights = np.random.default_rng(6).normal(size=(WIDTH, WIDTH))
    weights[:, 2] = 0
    prepared = small([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], w=weights)
    x = np.zeros((1, 2, WIDTH), dtype=np.float32)
    quantise_statically(prepared, tmp_path / "out.onnx", [{"x": x}])
    assert not computed(tmp_path / "out.onnx", x).any()
    assert np.isfinite(computed(tmp_path / "out.onnx", x + 1)).all()


@pytest.mark.parametrize("precision", INT8)
def test_attention_that_has_no_integer_form_stays_float(precision, tmp_path):
    generator = np.random.default_rng(7)
    attention = helper.make_node(
        "Attention",
        ["x", "qkv", "bias", "", "", "relative"],
        ["y"],
        "attention",
        domain="com.microsoft",
        num_heads=2,
    )
    model = small(
        [attention],
        qkv=generator.normal(size=(WIDTH, 3 * WIDTH)),
        bias=generator.normal(size=3 * WIDTH),
        relative=5 * generator.normal(size=(1, 2, 4, 4)),
    ).model
    onnx.save_model(model, tmp_path / "fp32.onnx")
    x = generator.normal(size=(1, 4, WIDTH)).astype(np.float32)
    prepared = prepare(tmp_path / "fp32.onnx", [{"x": x}])
    if precision == "int8":
        quantise_dynamically(prepared, tmp_path / "out.onnx")
    else:
        quantise_statically(prepared, tmp_path / "out.onnx", [{"x": x}])
    expected = computed(tmp_path / "fp32.onnx", x)
    np.testing.assert_allclose(computed(tmp_path / "out.onnx", x), expected, atol=1e-5)
