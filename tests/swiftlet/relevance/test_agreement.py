from collections.abc import Mapping
from math import isnan

import pytest

from swiftlet.relevance.agreement import Verdict, kappa
from swiftlet.relevance.judgements import Judgements


def verdict(**judges: Mapping[int, int] | list[int]) -> Verdict:
    """Of judges with the grades of documents, by their numbers."""
    found = Judgements()
    for judge, grades in judges.items():
        given = grades if isinstance(grades, Mapping) else dict(enumerate(grades))
        name = judge.replace("_", ":")
        found.grades[name] = {("q", f"d{number}"): grade for number, grade in given.items()}
    return Verdict.on(found)


def test_kappa_with_linear_weights_is_the_textbooks() -> None:
    # By hand: 10 documents; observed 3 / 10; by chance 130 / 100.
    graded = [(0, 0), (0, 1), (1, 1), (2, 2), (3, 3), (3, 2), (0, 0), (1, 0), (2, 2), (3, 3)]
    assert kappa(graded) == pytest.approx(1 - 0.3 / 1.3)


def test_a_difference_of_three_counts_three_times() -> None:
    near = [(0, 0)] * 10 + [(3, 3)] * 10 + [(0, 1)]
    far = [(0, 0)] * 10 + [(3, 3)] * 10 + [(0, 3)]
    assert kappa(near) > kappa(far)
    assert kappa([(0, 0), (3, 3)]) == 1
    assert kappa([(0, 3), (3, 0)]) < 0
    assert isnan(kappa([(2, 2)] * 5))


def test_judges_by_chance_agree_by_nothing() -> None:
    graded = [(one, other) for one in range(4) for other in range(4)]
    assert kappa(graded) == pytest.approx(0)


def test_ten_judgements_are_too_few() -> None:
    assert verdict(Ann=[0, 1] * 5).objections == ["too few: 40 more judgements are expected"]
    assert verdict(Ann=[0, 1] * 25).objections == []
    assert verdict(Ann=[0, 1] * 13, Bob=dict.fromkeys(range(26, 50), 3)).objections == []


def test_judges_who_do_not_agree_are_no_evidence() -> None:
    (sentence,) = verdict(Ann=[0, 3] * 30, Bob=[0, 0, 3, 3] * 15).objections
    assert sentence == "Ann and Bob have κ 0.00, but at least 0.4 is expected"
    assert verdict(Ann=[0, 3] * 30, Bob=[0, 3] * 30).objections == []
    (sentence,) = verdict(Ann=[2] * 60, Bob=[2] * 60).objections
    assert "no κ, since all grades are one" in sentence


def test_agreement_on_few_documents_in_common_says_nothing_yet() -> None:
    found = verdict(Ann=[0, 3] * 30, Bob=[3, 0] * 5)
    (agreement,) = found.agreements
    assert (agreement.in_common, agreement.missing, agreement.is_known) == (10, 40, False)
    assert found.objections == []


def test_each_two_people_are_compared_and_models_with_all_people() -> None:
    found = verdict(Cid=[1], Ann=[0, 3], Bob=[0], llm_m=[0, 3], llm_n=[0])
    assert [(each.first, each.second, each.in_common) for each in found.agreements] == [
        ("Ann", "Bob", 1),
        ("Ann", "Cid", 1),
        ("Bob", "Cid", 1),
        ("llm:m", "people", 2),
        ("llm:n", "people", 1),
    ]


def test_a_model_is_among_the_qrels_only_where_it_agrees_with_people() -> None:
    people = [0, 3] * 25
    calibrated = verdict(Ann=people, llm_m=[*people, 2, 1])
    assert len(calibrated.grades) == 52
    assert calibrated.grades["q", "d50"] == 2
    contrary = verdict(Ann=people, llm_m=[*(3 - each for each in people), 2])
    assert len(contrary.grades) == 50
    (note,) = contrary.notes
    assert note.startswith("llm:m and people have κ -1.00, but at least 0.4 is expected: its judg")
    early = verdict(Ann=people[:10], llm_m=people)
    assert len(early.grades) == 10
    assert early.notes == [
        "llm:m is not among the qrels until people have judged 40 more of its documents"
    ]


def test_people_come_before_models_and_the_lower_of_two_grades_counts() -> None:
    people = [0, 3] * 25
    found = verdict(Ann={**dict(enumerate(people)), 0: 2}, Bob=people, llm_m=people)
    assert found.grades["q", "d0"] == 0
    assert verdict(Ann=[3], Bob=[2], Cid=[0]).grades == {("q", "d0"): 2}


def test_models_alone_are_no_evidence() -> None:
    found = verdict(llm_m=[0, 3] * 50)
    assert found.grades == {}
    assert found.objections == ["too few: 50 more judgements are expected"]


def test_second_grades_are_said() -> None:
    found = verdict(Ann=[0])
    found.judgements.changed["Ann"] += 3
    assert found.notes == ["Ann gave 3 documents a second grade: the later one counts"]
