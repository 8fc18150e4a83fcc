"""The peers that Swiftlet is compared with."""

import numpy as np
import onnx
import pytest

from benchmarks.peers import INT8_FILE, QUERY_LAYERS, export_int8_peer, int8_peer, torch_peer
from tests.conftest import TOPICS


@pytest.mark.check
def test_the_int8_peer_embeds_as_the_model_in_torch(tmp_path):
    texts = list(TOPICS.values())
    expected = torch_peer().encode(texts)
    found = int8_peer(export_int8_peer(tmp_path / "peer"), threads=1).encode(texts)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)
    assert (np.sum(expected * found, axis=1) > 0.95).all()


@pytest.mark.check
def test_a_peer_of_two_layers_is_that_much_smaller(tmp_path):
    directory = export_int8_peer(tmp_path / "peer", QUERY_LAYERS)
    peer = int8_peer(directory, threads=1)
    assert peer.encode(["how do vaccines work"]).shape == (1, 384)
    nodes = onnx.load(directory / INT8_FILE).graph.node
    assert sum(node.op_type == "Softmax" for node in nodes) == len(QUERY_LAYERS)
