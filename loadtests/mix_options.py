"""The options that say what is asked: those of `python -m loadtests` and of Locust."""

import argparse
from collections.abc import Callable
from typing import Any

from loadtests.command_line import number
from loadtests.traffic import Mix


def add_mix_options(add: Callable[..., Any]) -> None:
    """Add them by a parser's `add_argument`."""
    add("--single", type=number(0, 1e6), default=1.0, help="weight of single queries")
    add("--batch", type=number(0, 1e6), default=0.0, help="weight of batches")
    add("--cached", type=number(0, 1e6), default=0.0, help="weight of popular queries")
    add("--batch-queries", type=number(1, 10_000, int), default=8, help="queries of a batch")
    add("--top-k", type=number(1, 10_000, int), default=10)
    add("--seed", type=number(0, 2**31, int), default=0)


def mix_of(options: argparse.Namespace) -> Mix:
    """The mix that they ask for.

    :raises LoadTestError: When nothing is left to be asked.
    """
    return Mix(
        options.single,
        options.batch,
        options.cached,
        batch_queries=options.batch_queries,
        top_k=options.top_k,
    )
