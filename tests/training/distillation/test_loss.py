"""The losses of distillation."""

import pytest
import torch
from torch.nn import functional

from tests.samplers import normalised
from training.distillation.ranking import distance, ranking_loss


def test_the_distance_is_the_squared_euclidean_one_by_the_width():
    student, teacher = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]])
    assert distance(student, teacher, "euclidean").item() == pytest.approx((1 + 4) / 2)


def test_lengths_do_not_count_in_the_cosine():
    student, teacher = normalised(4, 0, 16), normalised(4, 1, 16)
    expected = 1 - (student * teacher).sum(-1).mean().item()
    assert distance(3 * student, teacher, "cosine").item() == pytest.approx(expected, abs=1e-6)
    assert distance(5 * teacher, teacher, "cosine").item() == pytest.approx(0, abs=1e-6)


def test_a_student_with_the_ranking_of_the_teacher_has_no_loss():
    teacher, documents = normalised(4, 1, 16), normalised(9, 2, 16)
    assert ranking_loss(teacher, teacher, documents, 20.0).item() == pytest.approx(0, abs=1e-6)
    # A part that is perpendicular to all documents changes no score.
    flat = functional.normalize(torch.cat([documents, torch.zeros(9, 1)], 1), dim=-1)
    leaning = functional.normalize(torch.cat([teacher, torch.ones(4, 1)], 1), dim=-1)
    tilted = torch.cat([leaning[:, :-1], -leaning[:, -1:]], 1)
    assert ranking_loss(tilted, leaning, flat, 20.0).item() == pytest.approx(0, abs=1e-6)


def test_the_ranking_loss_is_the_divergence_of_the_softmaxes():
    student, teacher, documents = normalised(3, 0, 16), normalised(3, 1, 16), normalised(7, 2, 16)
    wanted = torch.softmax(5 * teacher @ documents.T, -1)
    found = torch.softmax(5 * student @ documents.T, -1)
    expected = (wanted * (wanted / found).log()).sum(-1).mean().item()
    assert expected > 0
    assert ranking_loss(student, teacher, documents, 5.0).item() == pytest.approx(expected)


def test_the_margin_loss_is_of_the_margins_between_any_two_documents():
    student, teacher, documents = normalised(3, 0, 16), normalised(3, 1, 16), normalised(7, 2, 16)
    squares = [
        (5 * (student - teacher) @ (first - second)) ** 2
        for number, first in enumerate(documents)
        for second in documents[:number]
    ]
    expected = torch.stack(squares).mean().item() / 2
    assert expected > 0
    found = ranking_loss(student, teacher, documents, 5.0, "margin_mse").item()
    assert found == pytest.approx(expected)
