"""DAFT's claims and ablations on a small scale, on 2 CPU cores.

DATA is a folder that has squad-dev-v1.1, medquad, boolq and scifact in BEIR's layout.

    python -m experiments.daft --data DATA                    (a few hours)
    python -m experiments.daft --data DATA --only collapse    (one experiment)
    python -m experiments.daft --render                       (the page alone)

Writes docs/results/daft.json, the page and its plots; with --only, into the folder of the runs.
Finished runs are kept in --runs and used again. Needs the extra `dev`, which has the torch weights.
"""

import argparse
from pathlib import Path

from experiments.daft_figures import collect
from experiments.daft_plots import draw, keep_embeddings
from experiments.daft_runs import Variant, Workplace, run_all, steps
from experiments.pages import parsed, read_figures
from experiments.processes import Processes
from loadtests.results import write

RUNS = Path(__file__).parents[1] / "runs" / "daft"

# The setting of the paper's collapse: constants from the cache alone.
CACHED = {"negatives.samplers": '["cache"]'}
FAST = {"optimiser.learning_rate": "1e-4", "optimiser.schedule": '"constant"'}
UNALIGNED = {"recipe": '"contrastive"'}
MEAN_POOLING = {"query_encoder.pooling": '"mean"', "document_encoder.pooling": '"mean"'}
ALL_LAYERS = {"query_encoder.layers": "[0, 1, 2, 3, 4, 5]"}
NO_THRESHOLD = {"alignment.threshold_per_dimension": ""}
NO_PERMUTATION = {"query_encoder.permute_basis": ""}
# Two per query, shared by the batch: as many per query as from the cache, but with gradient.
RE_ENCODED = {
    "negatives.gradient": '"re-encoded"',
    "negatives.per_query": "2",
    "negatives.shared": "true",
}
COLLAPSING = CACHED | FAST | UNALIGNED
# The run that collapses, for 60 steps.
SHORT = COLLAPSING | {"fine_tuning.epochs": steps(60)}
ALIGNED_SHORT = CACHED | FAST | {"fine_tuning.epochs": steps(60)}

SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "default-unaligned": UNALIGNED,
    "cached": CACHED,
    "cached-unaligned": CACHED | UNALIGNED,
    "cached-fast": CACHED | FAST,
    "cached-fast-unaligned": COLLAPSING,
    # As many steps, of the query encoder alone.
    "document-frozen": NO_THRESHOLD
    | {"alignment.max_epochs": steps(450), "fine_tuning.epochs": steps(1)},
    "long": NO_THRESHOLD
    | {
        "alignment.max_epochs": "3.0",
        "fine_tuning.epochs": "0.75",
        "validation.every": "210",
    },
    "no-shared-projection": {"dual_encoder.projection": '"none"', "dual_encoder.dim": "384"},
    "no-pretraining": {"query_encoder.random_weights": "true"},
    "no-self-attention": {"query_encoder.layers": "[]", "query_encoder.pooling": '"mean"'},
    "layers-1": {"query_encoder.layers": "[5]"},
    "layers-3": {"query_encoder.layers": "[0, 2, 5]"},
    "layers-4": {"query_encoder.layers": "[0, 1, 4, 5]"},
    "layers-6": ALL_LAYERS,
    "projection-frozen": {"alignment.train_projection": "false"},
    # A rotation instead of a random projection keeps the similarities of the document encoder.
    # These towers are below the paper's threshold from the start.
    "pretrained-space": MEAN_POOLING
    | NO_THRESHOLD
    | {"dual_encoder.dim": "384", "dual_encoder.start": '"orthogonal"'},
    "negatives-in-batch": {"negatives.samplers": '["in_batch"]'},
    "negatives-re-encoded": RE_ENCODED | CACHED,
    "map-rate-1e-5": SHORT | {"optimiser.learning_rate": "1e-5"},
    "map-mean-pooling": SHORT | MEAN_POOLING,
    "map-original-basis": SHORT | NO_PERMUTATION,
    "map-same-towers": SHORT | NO_PERMUTATION | ALL_LAYERS,
    "map-in-batch": SHORT | {"negatives.samplers": '["in_batch"]'},
    "map-uniform": SHORT | RE_ENCODED | {"negatives.samplers": '["uniform"]'},
    "map-bm25": SHORT | RE_ENCODED | {"negatives.samplers": '["bm25"]'},
    "map-mined": SHORT | RE_ENCODED | {"negatives.samplers": '["mined"]'},
    "map-score-factor-5": SHORT | {"loss.score_factor": "5.0"},
    "map-aligned-25": ALIGNED_SHORT | {"alignment.max_epochs": steps(25)},
    "map-aligned-100": ALIGNED_SHORT | {"alignment.max_epochs": steps(100)},
}
ALONE = "start, document encoder for both"
TESTED = {
    "default": ("start", ALONE, "aligned", "ended"),
    "document-frozen": ("aligned",),
    "long": ("aligned", "ended"),
    "projection-frozen": ("aligned", "ended"),
    "pretrained-space": (ALONE, "aligned", "ended"),
}
EXPERIMENTS = {
    "collapse": [
        "default",
        "default-unaligned",
        "cached",
        "cached-unaligned",
        "cached-fast",
        "cached-fast-unaligned",
        "document-frozen",
        "long",
    ],
    "ablation": ["default", "no-shared-projection", "no-pretraining", "no-self-attention"],
    "layers": ["layers-1", "default", "layers-3", "layers-4", "layers-6"],
    "projection": ["default", "projection-frozen", "pretrained-space"],
    "negatives": ["default", "cached", "negatives-in-batch", "negatives-re-encoded"],
    "map": [
        "cached-fast-unaligned",
        *(name for name in SETTINGS if name.startswith("map-")),
        "cached-fast",
    ],
}


def variant(name: str) -> Variant:
    """A run by its name. Runs for the map, and runs for negatives alone, are not tested."""
    untested = name.startswith(("map-", "negatives-"))
    return Variant(name, SETTINGS[name], () if untested else TESTED.get(name, ("ended",)))


def main() -> None:
    """Run the chosen experiments, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=[*EXPERIMENTS])
    parser.add_argument("--runs", type=Path, default=RUNS)
    Processes.add_options(parser)
    options = parsed(parser)
    results = options.results
    if not options.render:
        processes = Processes.from_options(options)
        workplace = Workplace(options.data.resolve(), options.runs.resolve(), processes)
        experiments = {name: [*map(variant, runs)] for name, runs in EXPERIMENTS.items()}
        # The first run fills the embedding cache that all runs share.
        run_all(workplace, [variant("default")])
        run_all(workplace, [run for name in options.only for run in experiments[name]])
        if {*options.only} != {*EXPERIMENTS}:
            results = workplace.runs
        figures = collect(workplace, experiments)
        keep_embeddings(workplace, experiments["collapse"], results / "daft")
    else:
        figures = read_figures(results / "daft.json")
    print(write(results / "daft.json", figures))
    draw(figures, results / "daft")


if __name__ == "__main__":
    main()
