"""Which of an encoder's precisions is used unless one is asked for."""

from collections.abc import Collection, Mapping

from export.parity import SMALLEST_FP32_COSINE, Parity
from export.quality import METRIC, QualityChange
from retrieval.encoder import Precision

LENGTHS = (8, 16)
"""Tokens of the texts whose latency decides."""

SMALLEST_MEAN_COSINE = 0.99
SMALLEST_COSINE = 0.97
LARGEST_LOSS = 0.005

# In this order, how many times as fast as the one before it a precision must be to be preferred:
# two that differ by less would change places with the noise of a measurement, and with the machine.
# Dynamic int8 comes before static, since it adapts to texts unlike those of the calibration, and
# what static has before it, that mates in a batch change nothing, serves nobody where texts are
# never batched. fp32 takes four times the memory.
_MARGINS: dict[Precision, float] = {"int8": 1.0, "int8_static": 1.25, "fp32": 1.5}


def shortfall(precision: Precision, parity: Parity, quality: QualityChange | None) -> str | None:
    """In which way a variant is not good enough, as a sentence; None if it is."""
    smallest_mean, smallest = (
        (SMALLEST_FP32_COSINE, SMALLEST_FP32_COSINE)
        if precision == "fp32"
        else (SMALLEST_MEAN_COSINE, SMALLEST_COSINE)
    )
    if not parity.mean_cosine >= smallest_mean:
        return (
            f"the mean cosine of {precision} with torch is {parity.mean_cosine:.6f}, at least "
            f"{smallest_mean} is expected"
        )
    if not parity.min_cosine >= smallest:
        return (
            f"the smallest cosine of {precision} with torch is {parity.min_cosine:.6f}, at least "
            f"{smallest} is expected"
        )
    if quality is not None and quality.change < -LARGEST_LOSS:
        return (
            f"{precision} loses {-quality.change:.4f} {METRIC} on {quality.collection} "
            f"{quality.split}, at most {LARGEST_LOSS} is expected"
        )
    return None


def choose_precision(
    seconds: Mapping[Precision, float], acceptable: Collection[Precision]
) -> Precision:
    """Dynamic int8, unless it is not `acceptable` or another is faster by a margin.

    If none is acceptable, all are.

    :param seconds: What each takes for the same texts.
    """
    known = [precision for precision in _MARGINS if precision in seconds]
    chosen, *others = [precision for precision in known if precision in acceptable] or known
    for other in others:
        if seconds[other] * _MARGINS[other] < seconds[chosen]:
            chosen = other
    return chosen
