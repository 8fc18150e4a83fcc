from collections import Counter
from math import comb
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftlet.relevance.interleaving import Duel, anytime_p, team_draft

ranking = st.lists(st.sampled_from("abcdefgh"), unique=True)


def mixed(today: str, challenger: str, seed: int = 0) -> tuple[str, str]:
    documents, teams = team_draft(today, challenger, str, Random(seed))
    return "".join(documents), teams


@given(today=ranking, challenger=ranking, seed=st.integers(0, 1000))
def test_a_mix_has_what_the_best_of_both_have_once_each(
    today: list[str], challenger: list[str], seed: int
) -> None:
    documents, teams = team_draft(today, challenger, str, Random(seed))
    assert len(documents) == len(set(documents)) == len(teams)
    assert len(documents) == max(len(today), len(challenger))
    for team, own in (("A", today), ("B", challenger)):
        given_by = [each for each, of in zip(documents, teams, strict=True) if of in {team, "="}]
        assert given_by == [each for each in own if each in given_by]
    # As many of each as in the other, but for the last round, until a ranking has no more.
    if len(today) == len(challenger) == len({*today, *challenger}) / 2:
        assert abs(teams.count("A") - teams.count("B")) <= 1


def test_what_both_have_at_the_top_is_of_none() -> None:
    assert mixed("abcd", "abcd") == ("abcd", "====")
    documents, teams = mixed("abcx", "abyc")
    assert (documents[:2], teams[:2]) == ("ab", "==")
    assert "=" not in teams[2:]


def test_each_has_the_first_choice_half_of_the_time() -> None:
    firsts = Counter(mixed("ab", "cd", seed)[1][0] for seed in range(1_000))
    assert firsts["A"] == pytest.approx(500, abs=80)


def test_a_client_that_asks_the_same_again_has_one_vote() -> None:
    duel = Duel("weight 0.5")
    for _ in range(3):
        duel.count(("client", "tea"), "=AB", [3])
    duel.count(("client", "snow"), "=AB", [1, 2])
    duel.count(("other", "snow"), "=AB", [2, 3])
    duel.count(("another", "snow"), "=AB", [])
    assert (duel.searches, duel.clicks, duel.wins, duel.losses) == (6, 6, 1, 1)
    assert duel.p_value == pytest.approx(1)


def test_the_p_value_is_the_inverse_of_the_largest_ratio_so_far() -> None:
    wins = [True] * 8 + [False]
    ratios = [2**8 / 9, 2**9 / (10 * comb(9, 1))]
    assert anytime_p(wins) == pytest.approx(1 / max(ratios))
    assert anytime_p([]) == pytest.approx(anytime_p([True])) == 1


def test_a_fair_coin_is_hardly_ever_called_unfair_however_often_one_looks() -> None:
    draws = (Random(seed) for seed in range(400))
    called = sum(anytime_p(draw.random() < 0.5 for _ in range(400)) <= 0.05 for draw in draws)
    assert called <= 0.05 * 400


def test_a_coin_of_three_quarters_is_called_unfair() -> None:
    draw = Random(0)
    assert anytime_p(draw.random() < 0.75 for _ in range(100)) < 0.01


def test_the_verdict_says_which_is_better_or_that_nothing_is_shown() -> None:
    duel = Duel("mode dense")
    assert duel.verdict == (
        "Clicks prefer the challenger (mode dense) in 0 of 0 searches with a preference: no "
        "difference is shown yet (p = 1, whenever one looks)"
    )
    for number in range(20):
        duel.count((f"{number}", "tea"), "AB", [1])
    assert "in 0 of 20 searches with a preference: so it is worse (p < 0.001" in duel.verdict
