"""FAISS, loaded so that its threads sleep while they wait for each other.

By default they spin. On cores that other programs keep busy, they then take the time of those that
compute: training an index takes up to ten times as long (docs/results/smaller.md).
"""

import os

_VARIABLE = "OMP_WAIT_POLICY"

_given = os.environ.get(_VARIABLE)
os.environ.setdefault(_VARIABLE, "PASSIVE")  # read when the library is loaded, and never again
try:
    import faiss
finally:
    if _given is None:  # other libraries and other processes decide for themselves
        del os.environ[_VARIABLE]

METRICS = {"inner_product": faiss.METRIC_INNER_PRODUCT, "l2": faiss.METRIC_L2}
"""FAISS's numbers of the metrics that a manifest names."""

__all__ = ["METRICS", "faiss"]
