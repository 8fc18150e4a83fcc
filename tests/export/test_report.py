"""What is good enough, the default precision, and the tables."""

import pytest
from rich.console import Console

from export.parity import Parity
from export.quality import QualityChange
from export.report import EncoderReport, VariantReport, choose_precision

GOOD = {"fp32", "int8"}


def parity(mean: float, smallest: float) -> Parity:
    return Parity(
        num_texts=9, shortest_tokens=2, longest_tokens=24, min_cosine=smallest, mean_cosine=mean
    )


def lost(loss: float) -> QualityChange:
    return QualityChange("scifact", "test", fp32=0.6451, quantised=round(0.6451 - loss, 4))


@pytest.mark.parametrize(
    ("fp32", "acceptable", "chosen"),
    [
        (3.0, GOOD, "int8"),
        # A small difference depends on the machine and on noise.
        (0.7, GOOD, "int8"),
        (0.6, GOOD, "fp32"),
        (0.6, {"int8"}, "int8"),
        (3.0, {"fp32"}, "fp32"),
        (0.7, set(), "int8"),
        (0.6, set(), "fp32"),
    ],
)
def test_int8_is_the_default_unless_it_is_not_good_enough_or_fp32_is_much_faster(
    fp32, acceptable, chosen
):
    assert choose_precision({"fp32": fp32, "int8": 1.0}, acceptable) == chosen


@pytest.mark.parametrize(
    ("precision", "found", "quality", "sentence"),
    [
        ("int8", parity(0.995, 0.98), None, None),
        ("int8", parity(0.995, 0.98), lost(0.005), None),
        ("int8", parity(0.995, 0.98), lost(-0.02), None),
        ("int8", parity(0.98, 0.975), None, "the mean cosine of int8 with torch is 0.98"),
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
    report = EncoderReport((VariantReport(precision, 1, found, quality),), precision)
    if sentence is None:
        assert report.shortfalls() == {}
    else:
        assert sentence in report.shortfalls()[precision]


def shown(report: EncoderReport) -> str:
    console = Console(width=100)
    with console.capture() as captured:
        for table in report.tables():
            console.print(table)
    return captured.get()


def test_tables_have_only_what_was_measured():
    quality = QualityChange("scifact", "test", 0.6451, 0.6440)
    seconds = {1: {4: 0.00017, 8: 0.00028}, 16: {4: 0.0002, 8: 0.0003}}
    variants = (
        VariantReport("fp32", 90_300_000, parity(1, 1), None, seconds),
        VariantReport("int8", 23_000_000, parity(0.99525, 0.98125), quality, seconds),
    )
    text = shown(EncoderReport(variants, "int8"))
    for expected in (
        "int8 (default)", "0.995250", "0.981250", "23.0", "0.6440", "-0.0011", "0.6451",
        "nDCG@10 by exact search on scifact test", "0.170", "0.300", "threads",
    ):  # fmt: skip
        assert expected in text
    assert "fp32 (default)" not in text
    plain = shown(EncoderReport((VariantReport("fp32", 1_000_000, parity(1, 1)),), "fp32"))
    assert "nDCG" not in plain
    assert "Latency" not in plain
