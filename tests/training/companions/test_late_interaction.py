"""The late-interaction teacher, against ColBERT's definition token by token."""

import copy

import pytest
import torch

from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import InvalidArgumentError
from tests.runs import plain_accelerator, records, run, tower
from training.companions.late_interaction import LateInteraction, teacher_loss
from training.contrastive.batch_encoder import BatchEncoder
from training.errors import RecipeError
from training.model.dual_encoder import DualEncoder
from training.model.towers import Tower, TowerSettings
from training.objective.contrastive import Scale, ScoredBatch, SoftmaxLoss

QUERIES = ["kalo mine", "tira", "pura soti kalo lomi"]
DOCUMENTS = ["kalo", "mine pura soti", "kalo " * 12, "tira, (lomi) 12", "soti"]


@pytest.fixture(scope="module")
def model(checkpoints) -> Tower:
    return tower(checkpoints["bert"])


def outputs(model: Tower, text: str) -> torch.Tensor:
    with torch.no_grad():
        tokens = model.token_outputs(model.tokenise([text]))[0]
    return tokens / tokens.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("size", [1, 2, 64])
def test_each_token_of_a_query_counts_with_its_most_similar_one(model, size):
    teacher = LateInteraction(model, plain_accelerator(), size)
    found = teacher.scores(QUERIES, DOCUMENTS)
    for row, query in enumerate(QUERIES):
        for column, document in enumerate(DOCUMENTS):
            of_query, of_document = outputs(model, query), outputs(model, document)
            expected = sum(max(float(q @ d) for d in of_document) for q in of_query)
            assert found[row, column].item() == pytest.approx(expected, abs=1e-4)


def test_queries_of_the_document_model_have_its_prompt_of_queries(model):
    prompted, plain = copy.deepcopy(model), [f"lomi {query}" for query in QUERIES]
    prompted.prompts, prompted.prompt = {"query": "lomi ", "passage": ""}, ""
    teachers = [LateInteraction(each, plain_accelerator(), 8) for each in (prompted, model)]
    found, expected = (
        each.scores(queries, DOCUMENTS)
        for each, queries in zip(teachers, (QUERIES, plain), strict=True)
    )
    torch.testing.assert_close(found, expected)
    both = (
        BatchEncoder(DualEncoder(t, t), plain_accelerator(), micro_batch_size=2)
        for t in (prompted, model)
    )
    outputs = [each.as_queries(texts) for each, texts in zip(both, (QUERIES, plain), strict=True)]
    torch.testing.assert_close(*outputs)


def test_the_teacher_stays_as_it_was(model):
    teacher = LateInteraction(model, plain_accelerator(), 8)
    before = teacher.scores(QUERIES, DOCUMENTS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    torch.testing.assert_close(teacher.scores(QUERIES, DOCUMENTS), before)


def test_a_teacher_that_is_certain_of_the_positives_gives_the_contrastive_loss():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 5, generator=generator)
    positives, negatives = torch.tensor([0, 3, 1]), torch.rand(3, 5, generator=generator) > 0.3
    negatives.scatter_(1, positives.unsqueeze(1), value=False)
    certain = torch.zeros(3, 5).scatter(1, positives.unsqueeze(1), 1e4)
    batch = ScoredBatch(scores, positives, negatives)
    loss = teacher_loss(batch, certain, scale=20, temperature=0.25)
    torch.testing.assert_close(loss, SoftmaxLoss(Scale())(batch))


def test_a_student_with_the_teachers_scores_has_nothing_to_learn():
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    positives, negatives = torch.tensor([0, 3, 1]), torch.ones(3, 5, dtype=torch.bool)
    negatives[2, 4] = False
    teacher = scores.detach() * 20 * 0.25 + torch.randn(3, 1)  # a constant of a query is no matter
    batch = ScoredBatch(scores, positives, negatives)
    loss = teacher_loss(batch, teacher, scale=20, temperature=0.25)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert scores.grad is not None
    assert scores.grad.abs().max() < 1e-6


def test_a_pair_is_trained_by_labels_and_the_teacher(make, tmp_path):
    losses = {}
    for weight in (0.0, 0.9):
        settings = make(
            recipe="contrastive", loss__teacher_weight=weight, fine_tuning={"epochs": 1},
            negatives={"samplers": ["cache", "in_batch"], "per_query": 4},
        )  # fmt: skip
        run(settings, tmp_path / f"{weight}")
        (step,) = records(tmp_path / f"{weight}", "step")
        losses[weight] = step["loss"]
    assert losses[0.0] != losses[0.9]


def test_a_teacher_without_token_outputs_or_texts_is_refused(make):
    lookup = Tower.load(TowerSettings(LOOKUP_QUERY_ENCODER))
    with pytest.raises(InvalidArgumentError, match="teacher_weight needs the outputs of tokens"):
        LateInteraction(lookup, plain_accelerator(), 8)
    with pytest.raises(RecipeError, match="teacher_weight is for negatives whose texts are"):
        make(loss__teacher_weight=0.5, negatives__samplers=["cache"])
