"""Parity is measured over texts of every length, and over the same tokens."""

import json
import shutil

import numpy as np
import pytest
import tokenizers

from export.errors import ExportError
from export.parity import measure_parity, torch_reference
from export.sample_texts import lengths_to_sample, sample_texts
from export.source import Source, load_source
from swiftlet.encoders.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def source(checkpoints) -> Source:
    return load_source(checkpoints["roberta"], pooling="mean")


@pytest.mark.parametrize("max_tokens", [3, 24, 256, 8192])
def test_lengths_reach_from_one_token_to_the_longest_text(max_tokens):
    lengths = lengths_to_sample(max_tokens, num_special_tokens=2)
    assert lengths == sorted(set(lengths))
    assert (lengths[0], lengths[-1]) == (3, max_tokens)
    assert set(range(3, min(max_tokens, 32) + 1)) <= set(lengths)
    assert len(lengths) <= 100


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_sample_texts_have_the_given_lengths(kind, checkpoints):
    tokenizer_json = load_source(checkpoints[kind], pooling="mean").tokenizer_json
    texts = sample_texts(tokenizer_json, [3, 7, 20, 60])
    assert texts == sample_texts(tokenizer_json, [3, 7, 20, 60])
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    lengths = np.array([len(tokenizer.encode(text).ids) for text in texts])
    # The first word of a text may be spelled otherwise by a tokenizer that minds its space.
    assert (np.abs(lengths - [3, 7, 20, 60]) <= 2).all()


def test_a_tokenizer_that_reads_otherwise_than_torch_is_refused(source):
    other = tokenizers.Tokenizer.from_str(source.tokenizer_json)
    other.enable_truncation(source.max_tokens - 1)
    with pytest.raises(ExportError, match=r"^tokenizer.json reads .* but Sentence Transformers as"):
        torch_reference(source, Tokenizer(other))


def test_long_texts_are_tried_where_the_end_of_a_text_is_kept(checkpoints, tmp_path, monkeypatch):
    model = shutil.copytree(checkpoints["bert"], tmp_path / "model")
    settings = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps(settings | {"truncation_side": "left"}))
    source = load_source(model, pooling="mean")
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(source.tokenizer_json))
    assert tokenizer._keeps_end
    torch_reference(source, tokenizer)
    monkeypatch.setattr(Tokenizer, "_part", lambda _, text, characters: text[:characters])
    with pytest.raises(ExportError, match=r"^tokenizer.json reads .* but Sentence Transformers as"):
        torch_reference(source, tokenizer)


def test_a_number_that_is_none_counts_as_the_worst(source):
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(source.tokenizer_json))
    reference = torch_reference(source, tokenizer)
    assert len(reference.token_ids[0]) <= 5
    assert max(map(len, reference.token_ids)) == source.max_tokens == 24

    class Broken:
        """An encoder with undefined embeddings."""

        dim = source.dim

        def embed(self, token_ids):
            return np.full(source.dim, np.nan, dtype=np.float32)

    parity = measure_parity(Broken(), reference)
    assert (parity.min_cosine, parity.mean_cosine) == (-1, -1)
