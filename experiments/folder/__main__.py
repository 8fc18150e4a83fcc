"""A folder that searches itself: the time to the first answer, and a day of edits.

    python -m experiments.folder --data DATA

DATA has the collections of first.toml and edits.toml in BEIR's layout; each document becomes a
file. `swiftlet up` is timed from its start to its first answer, and to its final index. Beside it
is Semble, which is installed from PyPI. Takes an hour of two cores.
"""

from argparse import Namespace

from experiments.folder.edits import DAY
from experiments.folder.figures import figures_of
from experiments.folder.first import SETTINGS
from experiments.indexes import METRIC
from measuring.experiment import Experiment, Found
from measuring.results import Figures, at_most, bound, growth, spread

NAMES = sorted({*SETTINGS["collections"], *DAY["collections"]})
EXPERIMENT = Experiment("folder", __doc__, NAMES, ["onnxruntime", "faiss-cpu", "watchfiles"])
RUNS = [("day", "edits"), *((kind, name) for name in SETTINGS["collections"]
                            for kind in ("first", "semble"))]  # fmt: skip
QUERIES = [("query", name) for name in SETTINGS["collections"]]  # in the indexes of the first runs


def collected(_options: Namespace, found: Found) -> Figures:
    (day,) = (figures for (kind, _), figures in found.items() if kind == "day")
    first, semble, query = (
        {name: figures for (kind, name), figures in found.items() if kind == wanted}
        for wanted in ("first", "semble", "query")
    )
    return {
        "metric": METRIC, "first": first, "semble": semble, "query": query, "day": day,
        "settings": DAY, "ratios": ratios(first, semble, query), "bounds": bounds(first, day),
    }  # fmt: skip


def ratios(first: Figures, semble: Figures, query: Figures) -> Figures:
    """Of first answers, ours over Semble's; of queries the other way; of quality the difference."""
    pairs = [(first[name], query[name]["look-up"], there) for name, there in semble.items()]
    return {
        "answered": spread([ours["answered"] / there["answered"] for ours, _, there in pairs]),
        "query": spread([there["query"] / ours["seconds"] for _, ours, there in pairs]),
        "quality": spread([ours["quality"] - there["quality"] for _, ours, there in pairs]),
    }


def bounds(first: Figures, day: Figures) -> list[Figures]:
    """The goals, kept or missed; the first answer has one for folders of `passages` at most."""
    goals, form = SETTINGS["goals"], "{:.1f} s".format
    kept = min(each["quality"]["first"] / each["quality"]["index"] for each in first.values())
    latency = day["latency"]
    return [
        *(
            at_most(f"first answer, {name}, {each['passages']:,} passages",
                    each["answered"], goals["answered"], form)
            for name, each in first.items() if each["passages"] <= goals["passages"]
        ),
        bound("least share of the final quality that the first index has", f"{kept:.1%}",
              f"at least {goals['kept']:.0%}", kept=kept >= goals["kept"]),
        *(
            at_most(f"{kind}, {how}", latency[key][how], goals["latency"], form)
            for key, kind in (("alone", "an edit alone"), ("burst", "a burst"))
            for how in ("median", "most")
        ),
        growth("memory after the first edit, and at most", *day["memory"][:2]),
    ]  # fmt: skip


if __name__ == "__main__":
    EXPERIMENT.main(lambda _: [RUNS, QUERIES], figures_of, collected)
