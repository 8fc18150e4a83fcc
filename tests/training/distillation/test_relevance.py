"""The contrastive term for texts with relevant documents."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from swiftlet.index.vectors.faiss_index import FaissIndex
from tests.samplers import normalised
from training.distillation.relevance import RelevanceTerm, Relevant
from training.distillation.settings import Distillation

SETTINGS = Distillation(
    teacher="t", layers=(0,), queries=("log",), judged_score_factor=5.0, teacher_share=1.0
)
RELEVANT = {
    "one": Relevant(np.array([2]), 1.0),
    "two": Relevant(np.array([0, 5]), 0.5),
}


STUDENT, TEACHER, PASSAGES = normalised(3, 0, 16), normalised(3, 1, 16), normalised(9, 2, 16)
TEXTS = ["one", "no relevant document", "two"]
# Relevant passages are nearest to this one: no other passage is too near to be a negative.
SURE = torch.stack([PASSAGES[2], PASSAGES[1], PASSAGES[0]])


def term(
    relevant: Mapping[str, Relevant] = RELEVANT, settings: Distillation = SETTINGS
) -> RelevanceTerm:
    return RelevanceTerm(relevant, PASSAGES, np.arange(len(PASSAGES)), settings)


def expected(line: int, relevant: list[int], others: list[int]) -> float:
    scores = (5 * STUDENT[line] @ PASSAGES.T).exp()
    return -math.log(scores[relevant].sum() / scores[relevant + others].sum())


def test_it_is_the_probability_of_all_relevant_passages_among_all_passages():
    first = expected(0, [2], [0, 1, 3, 4, 5, 6, 7, 8])
    second = expected(2, [0, 5], [1, 2, 3, 4, 6, 7, 8])
    found = term().loss(TEXTS, STUDENT, SURE)
    assert found.item() == pytest.approx((first + 0.5 * second) / 3, rel=1e-5)


def test_texts_without_a_relevant_document_have_no_term():
    assert term().loss(["other", "more"], STUDENT[:2], TEACHER[:2]).item() == 0


def test_what_the_teacher_scores_nearly_as_high_is_no_negative():
    scores = TEACHER[0] @ PASSAGES.T
    relevant = int(scores.argsort()[-4])  # three others have higher scores
    far = [row for row in range(9) if scores[row] < scores[relevant]]
    judged = {"one": Relevant(np.array([relevant]), 1.0)}
    found = term(judged).loss(["one"], STUDENT[:1], TEACHER[:1])
    assert found.item() == pytest.approx(expected(0, [relevant], far), rel=1e-5)


def test_its_gradient_moves_a_query_towards_its_passages():
    query = STUDENT.clone().requires_grad_()
    term().loss(TEXTS, query, SURE).backward()
    assert query.grad is not None
    assert float(-query.grad[0] @ PASSAGES[2]) > 0
    assert not query.grad[1].any()


@pytest.mark.parametrize("most", [5, 100])
def test_of_a_large_index_it_has_relevant_passages_and_the_nearest(most):
    index = FaissIndex.create("Flat", 16)
    index.add(PASSAGES.numpy())
    found = RelevanceTerm.of_index(RELEVANT, index, SURE[[0, 2]], SETTINGS, most)
    if most == 5:  # three relevant ones leave room for one for each text: the same again
        first, second = expected(0, [2], [0, 5]), expected(2, [0, 5], [2])
        whole = (first + 0.5 * second) / 3
    else:
        whole = term().loss(TEXTS, STUDENT, SURE).item()
    assert found.loss(TEXTS, STUDENT, SURE).item() == pytest.approx(whole, rel=1e-5)
