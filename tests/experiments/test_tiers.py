"""Students that are cut out of the teacher, and the page on them."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from experiments.tiers import BM25, SETTINGS, SHIPPED, TEACHER, cut_out, plot
from measuring.results import write
from swiftlet.encoders import LOOKUP_QUERY_ENCODER, torch_weights
from training.model.exported import exported_model

TEXTS = ["a zip archive", "the most common elements of a list"]


@pytest.fixture(scope="module")
def teacher() -> SentenceTransformer:
    return SentenceTransformer(f"{torch_weights()}", device="cpu")


def test_a_student_with_everything_is_the_teacher(teacher, tmp_path):
    cut_out(tmp_path / "all", layers=[0, 1, 2, 3, 4, 5], feed_forward=1536, heads=12)
    student = SentenceTransformer(f"{tmp_path / 'all'}", device="cpu")
    np.testing.assert_allclose(student.encode(TEXTS), teacher.encode(TEXTS), atol=1e-6)


def test_a_student_keeps_the_largest_neurons_and_heads(teacher, tmp_path):
    cut_out(tmp_path / "cut", layers=[0, 5], feed_forward=384, heads=6)
    student = SentenceTransformer(f"{tmp_path / 'cut'}", device="cpu")
    layers = student[0].auto_model.encoder.layer
    assert len(layers) == 2
    for layer, number in zip(layers, (0, 5), strict=True):
        of = teacher[0].auto_model.encoder.layer[number]
        assert layer.attention.self.value.weight.shape == (192, 384)
        values, outputs = of.attention.self.value.weight, of.attention.output.dense.weight
        sizes = values.reshape(12, -1).norm(dim=1) * outputs.T.reshape(12, -1).norm(dim=1)
        largest = sizes.topk(6).indices.sort().values
        expected = values.reshape(12, 32, 384)[largest].reshape(192, 384)
        np.testing.assert_array_equal(layer.attention.self.value.weight.detach(), expected.detach())
        assert layer.intermediate.dense.weight.shape == (384, 384)
        first, last = of.intermediate.dense.weight, of.output.dense.weight
        largest = (first.norm(dim=1) * last.norm(dim=0)).topk(384).indices.sort().values
        np.testing.assert_array_equal(layer.output.dense.weight.detach(), last[:, largest].detach())


@torch.no_grad()
def test_a_narrower_student_keeps_the_largest_dimensions(teacher, tmp_path):
    cut_out(tmp_path / "cut", layers=[0, 5], feed_forward=768, heads=6, width=192)
    student = SentenceTransformer(f"{tmp_path / 'cut'}", device="cpu")
    assert student.encode(TEXTS).shape == (2, 192)
    words = [each[0].auto_model.embeddings.word_embeddings.weight for each in (teacher, student)]
    largest = words[0].norm(dim=0).topk(192).indices.sort().values
    np.testing.assert_array_equal(words[1], words[0][:, largest])


@torch.no_grad()
def test_a_student_can_start_from_the_vectors_of_the_look_up_encoder(teacher, tmp_path):
    cut_out(tmp_path / "cut", layers=[5], words=LOOKUP_QUERY_ENCODER.name)
    student = SentenceTransformer(f"{tmp_path / 'cut'}", device="cpu")
    table = exported_model(LOOKUP_QUERY_ENCODER, {})[0].embedding.weight
    vectors = student[0].auto_model.embeddings.word_embeddings.weight
    of = teacher[0].auto_model.embeddings.word_embeddings.weight
    np.testing.assert_allclose(vectors.norm(dim=1).mean(), of.norm(dim=1).mean(), rtol=1e-5)
    cosines = torch.cosine_similarity(vectors[999:], table[999:])
    np.testing.assert_allclose(cosines, 1, atol=1e-5)


def test_the_page_names_the_encoders_that_no_other_one_beats(tmp_path):
    names = [*SETTINGS["students"]["cut"], *SHIPPED]
    ndcg = {f"{mode}, {name}": 0.5 for name in names for mode in ("dense", "hybrid")}
    figures = {
        "template": "experiments/tiers.md.j2",
        "plot": "tiers.svg",
        "group": "cut",
        "machine": "A machine.",
        "settings": SETTINGS,
        "teacher": TEACHER,
        "learnt": ["two"],
        "students": {name: {"cosine": 0.9, "seconds": 60} for name in SETTINGS["students"]["cut"]},
        "us": {name: 100.0 + place for place, name in enumerate(names)},
        "ndcg": {"one": {**ndcg, BM25: 0.4}, "two": {**ndcg, BM25: 0.4}},
    }
    name = "two layers, feed-forward 768"
    page = write(tmp_path / "tiers.json", figures).read_text("utf-8")
    assert f"in as little time as these: {names[0]}. All others lose" in page  # as good, and first
    figures["ndcg"]["one"][f"dense, {name}"] = 0.6
    page = write(tmp_path / "tiers.json", figures).read_text("utf-8")
    assert f"in as little time as these: {names[0]}; {name}. All others lose" in page
    place = names.index(name) + 1
    assert f"| {place} | {name} | 103 | 110.0% | 120.0% | 0.5000 | 0.9000 | 60 |" in page
    plot(figures, tmp_path / "tiers.svg")
    assert "<svg" in (tmp_path / "tiers.svg").read_text("utf-8")
