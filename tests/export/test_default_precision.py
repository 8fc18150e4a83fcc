"""The default is dynamic int8, unless parity, quality or latency require another precision."""

import itertools

import pytest

from export.default_precision import choose_precision, shortfall
from export.parity import Parity
from export.quality import QualityChange

ALL = ["fp32", "int8", "int8_static"]


def parity(mean: float, smallest: float) -> Parity:
    return Parity(
        num_texts=9, shortest_tokens=2, longest_tokens=24, min_cosine=smallest, mean_cosine=mean
    )


def lost(loss: float) -> QualityChange:
    return QualityChange("scifact", "test", fp32=0.6451, quantised=round(0.6451 - loss, 4))


@pytest.mark.parametrize("static", [0.9, 1.0, 1.1])
@pytest.mark.parametrize("fp32", [0.9, 3.0])
def test_a_few_percent_of_time_do_not_move_the_default_from_dynamic_int8(static, fp32):
    seconds = {"fp32": fp32, "int8": 1.0, "int8_static": static}
    assert choose_precision(seconds, ALL) == "int8"


def test_a_much_faster_precision_is_preferred():
    assert choose_precision({"fp32": 3.0, "int8": 1.0, "int8_static": 0.7}, ALL) == "int8_static"
    assert choose_precision({"fp32": 0.6, "int8": 1.0, "int8_static": 1.0}, ALL) == "fp32"
    assert choose_precision({"fp32": 0.6, "int8": 1.0, "int8_static": 0.7}, ALL) == "int8_static"


def test_a_precision_that_is_not_good_enough_is_not_chosen_even_if_fast():
    seconds = {"fp32": 9.0, "int8": 1.0, "int8_static": 0.1}
    assert choose_precision(seconds, ["fp32", "int8"]) == "int8"
    assert choose_precision(seconds, ["fp32"]) == "fp32"
    assert choose_precision({"int8": 1.0, "int8_static": 0.9}, []) == "int8"


def test_the_order_in_which_precisions_come_changes_nothing():
    seconds = {"fp32": 0.62, "int8": 1.0, "int8_static": 0.85}
    chosen = {
        choose_precision({name: seconds[name] for name in order}, order[:count])
        for order in itertools.permutations(ALL)
        for count in (0, 3)
    }
    assert chosen == {"fp32"}


@pytest.mark.parametrize(
    ("precision", "found", "quality", "sentence"),
    [
        ("int8", parity(0.995, 0.98), None, None),
        ("int8", parity(0.995, 0.98), lost(0.005), None),
        ("int8", parity(0.995, 0.98), lost(-0.02), None),
        ("int8_static", parity(0.98, 0.975), None, "mean cosine of int8_static with torch is 0.98"),
        ("int8", parity(0.995, 0.96), None, "the smallest cosine of int8 with torch is 0.96"),
        ("int8", parity(-1, -1), None, "mean cosine of int8 with torch is -1.0"),
        ("int8", parity(float("nan"), float("nan")), None, "mean cosine of int8 with torch is nan"),
        (
            "int8",
            parity(0.995, 0.98),
            lost(0.0051),
            "int8 loses 0.0051 nDCG@10 on scifact test, at most 0.005 is expected",
        ),
        ("fp32", parity(0.999995, 0.999991), None, None),
        ("fp32", parity(0.9999, 0.9999), None, "fp32 with torch is 0.999900, at least 0.99999"),
    ],
)
def test_a_precision_is_good_enough_or_a_sentence_names_the_reason(
    precision, found, quality, sentence
):
    told = shortfall(precision, found, quality)
    assert told == sentence if sentence is None else sentence in (told or "")
