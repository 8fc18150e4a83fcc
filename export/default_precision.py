"""Chooses the default precision of an encoder."""

from collections.abc import Collection, Mapping

from export.parity import SMALLEST_FP32_COSINE, Parity
from export.quality import METRIC, QualityChange
from swiftlet.encoders.encoder import Precision

LENGTHS = (8, 16)
"""The latencies of texts with these numbers of tokens are compared."""

SMALLEST_MEAN_COSINE = 0.99
SMALLEST_COSINE = 0.97
LARGEST_LOSS = 0.005

# The precisions in order of preference. A later one is chosen only if it is faster than the current
# choice by this factor: smaller differences depend on the machine and on noise. Dynamic int8 comes
# first, since it adapts to texts that differ from the calibration texts. Embeddings of static int8
# do not depend on the batch, but Swiftlet never batches texts. fp32 takes four times the memory.
_MARGINS: dict[Precision, float] = {"int8": 1.0, "int8_static": 1.25, "fp32": 1.5}


def shortfall(precision: Precision, parity: Parity, quality: QualityChange | None) -> str | None:
    """The reason why a variant is not good enough, as a sentence; None if it is."""
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
    """Choose dynamic int8, unless it is not `acceptable` or another precision is clearly faster.

    If no precision is acceptable, the choice is among all of them.

    :param seconds: The time of each precision for the same texts.
    """
    known = [precision for precision in _MARGINS if precision in seconds]
    chosen, *others = [precision for precision in known if precision in acceptable] or known
    for other in others:
        if seconds[other] * _MARGINS[other] < seconds[chosen]:
            chosen = other
    return chosen
