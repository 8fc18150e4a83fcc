"""What runs find on the tests, and which differences are significant."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean

from experiments.daft.evaluations import across
from experiments.daft.tests import TITLES
from measuring.results import Figures, by_query
from swiftlet.evaluation.comparison import lettered

Records = Mapping[str, Mapping[str, Figures]]
"""Run -> seed -> its record."""


def tested_of(runs: Records) -> Figures:
    """Title of a run and its state -> the figures on the tests, and their mean nDCG@10."""
    tested: Figures = {}
    for name, records in runs.items():
        for state in records["0"]["tests"] if "0" in records else ():
            rows = [
                {**r["tests"][state], "mean": _mean(r["tests"][state])} for r in records.values()
            ]
            if state == "ended":
                for row, record in zip(rows, records.values(), strict=True):
                    row["validation"] = max(
                        e["ndcg@10"] for s in record["stages"].values() for e in s["evaluations"]
                    )
            tested[_title(name, state)] = {"seeds": len(rows), **across(rows)}
    return tested


def lettered_of(done: Mapping[str, Sequence[str]], runs: Records, baselines: Figures) -> Figures:
    """Experiment -> title -> its letter, and the letters of titles on which it improves.

    By collection, of titles with the nDCG@10 of each query, as means over the seeds.
    """
    queries = {name: [each["by_query"]] for name, each in baselines.items() if "by_query" in each}
    by_run = {
        name: [r["by_query"] for r in of.values() if "by_query" in r] for name, of in runs.items()
    }
    for name, found in by_run.items():
        for state in found[0] if found else ():
            queries[_title(name, state)] = [each[state] for each in found]
    rows = {
        title: {name: by_query([*map(_values, (each[name] for each in found))]) for name in TITLES}
        for title, found in queries.items()
    }
    return {
        experiment: {
            each.name: asdict(each)
            for each in lettered(
                {
                    title: row
                    for title, row in rows.items()
                    if title in baselines or title.split(",")[0] in names
                }
            )
        }
        for experiment, names in done.items()
        if any(by_run[name] for name in names)
    }


def _values(thousandths: str) -> dict[str, float]:
    return {f"{place}": int(each) / 1000 for place, each in enumerate(thousandths.split())}


def _title(name: str, state: str) -> str:
    return name if state == "ended" else f"{name}, {state}"


def _mean(tests: Mapping[str, Mapping[str, float]]) -> float:
    return fmean(tests[title]["nDCG@10"] for title in TITLES)


def tested_baselines(measured: Figures) -> Figures:
    """The same of systems that are not trained here."""
    return {
        name: {
            "seeds": 1,
            **across([{title: tests[title] for title in TITLES} | {"mean": _mean(tests)}]),
            "validation": across(tests["validation"]),
        }
        for name, tests in measured.items()
    }
