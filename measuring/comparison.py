"""Several runs side by side by several metrics, as in table 2 of paper 001."""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from statistics import fmean
from string import ascii_lowercase
from typing import Any

from tabulate import tabulate

from swiftlet.evaluation.significance import TEST_TITLES, TestName, paired_t_test

LEVEL = 0.01
RunValues = Mapping[str, Mapping[str, float]]
"""One run's values: metric -> query_id -> value."""

_MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")


def compare(
    collection: str,
    runs: Mapping[str, RunValues],
    *,
    plain_columns: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Compare at most 26 runs of the same queries by the same metrics; the table, as JSON keeps it.

    Rows have the letters a, b, … in the order of `runs`. Each value lists the letters of the runs
    that it is significantly better than: p <= 0.01 by Student's paired t-test, uncorrected, as in
    the paper (001, table 2).

    :param plain_columns: Each with its `title`, `figures` by run, and `decimals`; not tested.
    """
    metrics = [*next(iter(runs.values()))]
    letters = dict(zip(runs, ascii_lowercase, strict=False))
    better = {m: _improvements(m, {name: run[m] for name, run in runs.items()}) for m in metrics}

    def cell(metric: str, name: str) -> dict[str, Any]:
        over = "".join(letters[other] for other in runs if (name, other) in better[metric])
        return {"mean": fmean(runs[name][metric].values()), "improves_on": over}

    return {
        "columns": [{"collection": collection, "metric": metric} for metric in metrics],
        "rows": [
            {"letter": letter, "name": name, "cells": [cell(metric, name) for metric in metrics]}
            for name, letter in letters.items()
        ],
        "test": "t",
        "significance_level": LEVEL,
        "num_pairs": comb(len(runs), 2),
        "plain_columns": [*plain_columns],
    }


def to_markdown(comparison: Mapping[str, Any]) -> str:
    """The table in GitHub's Markdown, and what superscripts and bold type mean."""
    columns, plain = comparison["columns"], comparison["plain_columns"]
    best = [_best(comparison, place) for place in range(len(columns))]
    rows = []
    for row in comparison["rows"]:
        cells = [f"[{row['letter']}]", _escaped(row["name"])]
        for found, highest in zip(row["cells"], best, strict=True):
            value = f"{found['mean']:.3f}"
            over = f"<sup>[{found['improves_on']}]</sup>" if found["improves_on"] else ""
            cells.append((f"**{value}**" if value == highest else value) + over)
        cells += [f"{each['figures'][row['name']]:.{each['decimals']}f}" for each in plain]
        rows.append(cells)
    titles = [f"{each['collection']} {each['metric']}" for each in columns]
    titles += [each["title"] for each in plain]
    alignment = ["left", "left", *["right"] * len(titles)]
    head = ["", "run", *map(_escaped, titles)]
    table = tabulate(rows, head, "pipe", colalign=alignment, disable_numparse=True)
    if not comparison["num_pairs"]:
        return str(table)
    test: TestName = comparison["test"]
    return (
        f"{table}\n\nSuperscripts name the rows on which a value improves significantly (two-sided "
        f"paired {TEST_TITLES[test]} over queries, p ≤ {comparison['significance_level']:g}). The "
        "best value of a column is bold."
    )


def _improvements(metric: str, values: Mapping[str, Mapping[str, float]]) -> set[tuple[str, str]]:
    """The pairs of a run and of one on which it improves significantly."""
    found = set()
    for one, other in combinations(values, 2):
        test = paired_t_test(values[one], values[other])
        if test.p_value <= LEVEL and test.difference:
            wins = (test.difference > 0) != _fewer_is_better(metric)
            found.add((one, other) if wins else (other, one))
    return found


def _best(comparison: Mapping[str, Any], place: int) -> str:
    """The best value of a column as printed; "" if there is a single run."""
    means = [row["cells"][place]["mean"] for row in comparison["rows"]]
    fewer = _fewer_is_better(comparison["columns"][place]["metric"])
    return f"{min(means) if fewer else max(means):.3f}" if len(means) > 1 else ""


def _fewer_is_better(metric: str) -> bool:
    return metric.casefold().startswith("holes@")


def _escaped(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", " ".join(text.split()))
