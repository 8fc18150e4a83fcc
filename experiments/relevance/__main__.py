"""The relevance loop: how much better searches get by judgements and clicks.

    python -m experiments.relevance --data DATA

All judgements are hidden; programs play the people who search, click and judge. Takes an hour of a
core for each seed, and twice as long with AVX2 alone.
"""

from argparse import Namespace
from collections import defaultdict
from itertools import product
from statistics import fmean

from experiments.relevance.improving import DOCUMENTS, JUDGEMENTS, figures_of
from experiments.relevance.people import SETTINGS
from measuring.experiment import Experiment, Found, Run
from measuring.results import Figures, over_seeds

EXPERIMENT = Experiment(
    "relevance", __doc__, SETTINGS["collections"],
    ["torch", "onnxruntime", "faiss-cpu", "tantivy"], seeds=3,
)  # fmt: skip


def runs(options: Namespace) -> list[list[Run]]:
    """What the documents alone give comes first: judgements and clicks are about it."""
    clicked = product(SETTINGS["users"], SETTINGS["clicks"])
    kinds = [*((JUDGEMENTS, count) for count in SETTINGS["judgements"]), *clicked]
    names, seeds = SETTINGS["collections"], range(options.seeds)
    first = [(name, DOCUMENTS, 0, seed) for seed in seeds for name in names]
    return [first, [(name, *kind, seed) for seed in seeds for name in names for kind in kinds]]


def collected(_options: Namespace, found: Found) -> Figures:
    """Gains over today's search: of each collection over its seeds, and over all."""
    rows = defaultdict[tuple[str, str, int], list[Figures]](list)
    for row in found.values():
        for name in (row["collection"], "mean"):
            rows[name, row["kind"], row["count"]].append(row)
    return {
        "settings": SETTINGS,
        "rows": [
            {
                "collection": name, "kind": kind, "count": count, "seeds": len(of),
                "today": fmean(each["today"] for each in of),
                "published": sum(each["published"] != each["today"] for each in of),
                "gain": over_seeds([each["published"] - each["today"] for each in of]),
                "of_encoder": over_seeds([each["encoder"] - each["today"] for each in of]),
            }
            for (name, kind, count), of in rows.items()
        ],
        "runs": [*found.values()],
    }  # fmt: skip


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected)
