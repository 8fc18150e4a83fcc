"""The shipped encoder is all-MiniLM-L6-v2, with the parity of its manifest."""

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from export.parity import measure_parity, torch_reference
from export.source import Source, load_source
from swiftlet.encoders import DEFAULT_ENCODER, torch_weights
from swiftlet.encoders.encoder import OnnxEncoder
from training.model.fingerprint import embedding_space

TEXTS = [
    "measles vaccine efficacy in infants",
    "What causes a volcano to erupt?",
    "A Bayesian approach to the estimation of sparse covariance matrices. " * 30,
    "Ångström measured 5,890 Å — naïvely — in 1868.",
]


@pytest.fixture(scope="module")
def torch_source() -> Source:
    return load_source(torch_weights(), max_tokens=256)


def test_it_is_made_from_the_weights_that_its_card_names(torch_source, shipped_encoder):
    assert embedding_space(torch_source.model) == shipped_encoder.embedding_space
    assert (DEFAULT_ENCODER / "tokenizer.json").read_text("utf-8") == torch_source.tokenizer_json
    card = (DEFAULT_ENCODER / "README.md").read_text("utf-8")
    assert shipped_encoder.embedding_space in card
    assert "Apache-2.0" in card


def test_its_parity_with_torch_is_that_of_the_manifest(torch_source, shipped_encoder):
    reference = torch_reference(torch_source, shipped_encoder.tokenizer)
    parity = measure_parity(shipped_encoder, reference)
    stated = shipped_encoder.manifest.details["parity"]["int8"]
    assert parity.num_texts == stated["num_texts"]
    assert parity.longest_tokens == stated["longest_tokens"] == 256
    # Another processor's arithmetic moves the last digits.
    assert parity.mean_cosine == pytest.approx(stated["mean_cosine"], abs=0.001)
    assert parity.min_cosine == pytest.approx(stated["min_cosine"], abs=0.003)
    assert abs(stated["nDCG@10"]["change"]) <= 0.005


def test_it_orders_texts_as_torch_does(torch_source, shipped_encoder):
    expected = torch_source.model.encode(TEXTS, show_progress_bar=False)
    embeddings = shipped_encoder.encode(TEXTS)
    np.testing.assert_allclose(embeddings @ embeddings.T, expected @ expected.T, atol=0.03)


def test_its_files_fit_a_repository_and_hold_no_path_of_a_machine(shipped_encoder):
    sizes = {entry.name: entry.stat().st_size for entry in DEFAULT_ENCODER.iterdir()}
    assert sizes.keys() == {
        "manifest.json", "model_int8.onnx", "tokenizer.json", "canonical.json", "README.md"
    }  # fmt: skip
    assert sum(sizes.values()) < 25e6
    model = (DEFAULT_ENCODER / "model_int8.onnx").read_bytes()
    assert str(Path(__file__).parents[2]).encode() not in model
    assert b"site-packages" not in model


def test_its_canonical_texts_are_diverse_and_one_is_longer_than_it_reads(shipped_encoder):
    canonical = json.loads((DEFAULT_ENCODER / "canonical.json").read_text("utf-8"))
    assert list(canonical["embeddings"]) == ["int8"]
    assert len(canonical["texts"]) == 6
    whole = tokenizers.Tokenizer.from_file(str(DEFAULT_ENCODER / "tokenizer.json"))
    whole.no_truncation()
    lengths = [len(whole.encode(text).ids) for text in canonical["texts"]]
    assert min(lengths) <= 6
    assert max(lengths) > 256
    assert isinstance(shipped_encoder, OnnxEncoder)
