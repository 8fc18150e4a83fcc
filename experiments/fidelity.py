"""Random projections of BM25 on four collections (002, section 2, figures 2 and 3).

    python -m experiments.fidelity --data DATA

DATA is the folder of the collections. Finished runs are kept in --work, and an interrupted
experiment goes on. Writes docs/results/fidelity.json, its page and its picture. Takes five
minutes of one core.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from math import inf, log
from pathlib import Path
from typing import Any

import numpy as np

import swiftlet
from experiments import hybrid
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from measuring.runs import measured
from swiftlet.evaluation.fidelity import Model, Projection
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.evaluation.plots.lines import Curve, LinePanel, plot_lines

COLLECTIONS = ("scifact", "squad-dev-v1.1", "boolq", "medquad")
KINDS: tuple[tuple[Model, Projection], ...] = (
    ("bm25", "rademacher"),
    ("bm25", "gaussian"),
    ("boolean", "rademacher"),
)
SHOWN = "bm25, rademacher"
SEEDS, ERROR = (0, 1, 2), 0.05
BOUND = 2 * log(4 / ERROR)
"""What lemma 1 guarantees, as a multiple of 1 / (ε²/2 − ε³/3)."""


def main() -> None:
    work = hybrid.WORK.with_name("fidelity")
    options = script_options(__doc__, data=Path, work=work, jobs=1, raw=RESULTS / "fidelity.json")
    named = [(*run, seed) for run in product(COLLECTIONS, KINDS) for seed in SEEDS]
    runs = [(collection, *kind, seed) for collection, kind, seed in named]
    found = measured(partial(figures_of, options.data), runs, options.work, options.jobs)
    rows = {
        name: {
            f"{model}, {projection}": _row([found[name, model, projection, seed] for seed in SEEDS])
            for model, projection in KINDS
        }
        for name in COLLECTIONS
    }
    drawing = options.raw.with_suffix(".svg")
    figures = {
        "template": "experiments/fidelity.md.j2",
        "plot": drawing.name,
        "machine": describe_machine(["numpy", "scipy"], threads="1"),
        "error": ERROR,
        "bound": BOUND,
        "seeds": len(SEEDS),
        "rows": rows,
        **findings(rows),
    }
    save_figure(plot_lines(panels(rows)), drawing)
    print(write(options.raw, figures))


def figures_of(data: Path, name: str, model: Model, projection: Projection, seed: int) -> Figures:
    """One measurement of a collection: its documents, and 200 of its queries."""
    path = data / name
    return asdict(
        swiftlet.fidelity(path, path, model=model, projection=projection, error=ERROR, seed=seed)
    )


def _row(runs: Sequence[Figures]) -> Figures:
    """Means of the seeds, and the dimensions that sufficed beside the terms of lemma 1."""
    pairs = np.array([pair for run in runs for pair in run["tightness"]])
    logarithms = np.log(pairs)
    return {
        **{name: runs[0][name] for name in ("num_texts", "num_words", "num_queries", "dimensions")},
        **{name: _mean([run[name] for run in runs]) for name in ("errors", "recalls")},
        "tightness": pairs.tolist(),
        "factor": float(np.median(pairs[:, 1] / pairs[:, 0])),
        "slope": float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0]),
        "pairs": enough(runs[0]["dimensions"], _mean([1 - np.array(r["errors"]) for r in runs])),
        "recall": enough(runs[0]["dimensions"], _mean([run["recalls"] for run in runs])),
        "groups": [
            {
                "most_words": _mean([each["most_words"] for each in of_seeds]),
                "margin": _mean([each["margins"][0] for each in of_seeds]),
                "dimensions": _median([each["dimensions"] for each in of_seeds]),
            }
            for of_seeds in zip(*(run["groups"] for run in runs), strict=True)
        ],
    }


def _median(dimensions: Sequence[int | None]) -> int | None:
    """The median of three, where None is more than all that were tried."""
    return sorted(dimensions, key=lambda each: each or inf)[1]


def _mean(values: Sequence[Any]) -> Any:
    return np.mean(values, axis=0).tolist()


def enough(dimensions: Sequence[int], kept: Sequence[float]) -> int | None:
    """The fewest dimensions from which on all keep enough."""
    short = [number for number, share in zip(dimensions, kept, strict=True) if share < 1 - ERROR]
    return next((number for number in dimensions if number > max(short, default=0)), None)


def findings(rows: Figures) -> Figures:
    """What the page says of all collections, and of BM25 by the length of documents."""
    every = [row for kinds in rows.values() for row in kinds.values()]
    ends = {
        name: (kinds[SHOWN]["groups"][0], kinds[SHOWN]["groups"][-1])
        for name, kinds in rows.items()
    }
    return {
        "factors": [extreme(row["factor"] for row in every) for extreme in (min, max)],
        "slopes": [extreme(row["slope"] for row in every) for extreme in (min, max)],
        "smaller_margins": [n for n, (a, z) in ends.items() if z["margin"] < a["margin"]],
        "more_dimensions": [
            n for n, (a, z) in ends.items() if (z["dimensions"] or inf) > (a["dimensions"] or inf)
        ],
    }


def panels(rows: Figures) -> list[LinePanel]:
    """Figures 2 and 3b of the paper, for BM25 and Rademacher's projections."""
    of_pairs, of_lengths = [], []
    for name, kinds in rows.items():
        terms, sufficed = np.array(sorted(kinds[SHOWN]["tightness"])).T
        of_pairs.append(Curve(name, terms, sufficed))
        groups = [each for each in kinds[SHOWN]["groups"] if each["dimensions"]]
        lengths, suffice = (
            np.array([each[key] for each in groups]) for key in ("most_words", "dimensions")
        )
        of_lengths.append(Curve(name, lengths, suffice))
    ends = np.array(
        [min(each.x.min() for each in of_pairs), max(each.x.max() for each in of_pairs)]
    )
    of_pairs.append(Curve("guaranteed by lemma 1", ends, BOUND * ends, dashed=True))
    scales: dict[str, Any] = {"markers": True, "logarithmic_x": True, "logarithmic_y": True}
    return [
        LinePanel(
            "dimensions",
            of_pairs,
            x_label="1 / (ε²/2 − ε³/3)",
            title=f"enough for {1 - ERROR:.0%} of the pairs",
            **scales,
        ),
        LinePanel(
            "dimensions",
            of_lengths,
            x_label="words of the longest text",
            title="enough for recall@10, by length",
            **scales,
        ),
    ]


if __name__ == "__main__":
    main()
