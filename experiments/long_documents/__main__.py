"""Which passage contains these words? Models and BM25 by the length of passages (002, section 5).

    python -m experiments.long_documents --data DATA

The cross-encoder learns from longer passages with the first seed alone. On 2 cores with AMX, the
first seed takes an hour; on 2 cores without it, each other seed takes nearly two.
"""

from argparse import Namespace
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
import tokenizers

from experiments.long_documents import models, task
from measuring.experiment import Experiment, Found, Run, name_of
from measuring.results import Figures, over_seeds
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.evaluation.fidelity import Floats
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.evaluation.plots.lines import Curve, LinePanel, plot_lines

COUNTS, SOURCE, PAPER = models.TABLES["counts"], models.TABLES["source"], models.TABLES["paper"]
LENGTHS: list[int] = models.TABLES["lengths"]
BY_SIZE: list[list[str]] = [*models.TABLES["by_size"].values()]
RERANKED: int = models.TABLES["reranked"]
HYBRID = "HYBRID-ME-384-uni"
EXPERIMENT = Experiment(
    "long-documents", __doc__, [SOURCE], ["torch", "transformers", "onnxruntime"], seeds=3, jobs=2
)


def runs(options: Namespace) -> list[list[Run]]:
    found: list[Run] = []
    for seed in range(options.seeds):  # all of a seed before the next one
        for name in (*models.SHAPES, models.CROSS):
            every = name in models.SYSTEMS or (name == models.CROSS and not seed)
            found += [(name, length, seed) for length in (LENGTHS if every else LENGTHS[:1])]
    return [found]


def figures_of(options: Namespace, system: str, length: int, seed: int) -> Figures:
    """MRR@10 of a model and of BM25, how alike its vectors are, and the time of the training."""
    read = tokenizers.Tokenizer.from_file(f"{DEFAULT_QUERY_ENCODER / TOKENIZER_FILE}")
    read.enable_truncation(models.MOST_TOKENS)
    tokenizer = Tokenizer(read)
    made = partial(task.containing, options.data / SOURCE, tokenizer, counts=COUNTS)
    (judged, learnt), tested = made(length), COUNTS["queries"]
    words = {
        "BM25-uni": task.bm25(judged, lambda text: task.pieces(tokenizer, text)),
        "BM25-bi": task.bm25(judged, lambda text: task.with_pairs(task.pieces(tokenizer, text))),
    }
    found: dict[str, Floats] = {}
    of_vectors = {}
    with TemporaryDirectory() as name:
        folder, began = Path(name), process_time()
        if system == models.CROSS:
            lengths = dict.fromkeys((LENGTHS[0], length))
            model = models.trained_cross_encoder(folder, [made(each)[1] for each in lengths], seed)
            seconds = process_time() - began
            found[models.CROSS] = task.reranked(
                model.logit, words["BM25-bi"], judged, tested, RERANKED
            )
        else:
            embedded = models.trained_pair(folder, learnt, system, length, seed).embedded(judged)
            seconds = process_time() - began
            dim = embedded.queries.shape[1]
            vectors = embedded.documents.reshape(len(judged.documents), -1, dim)
            scores = embedded.queries @ vectors.reshape(-1, dim).T
            dense = scores.reshape(len(judged.queries), len(judged.documents), -1).max(axis=2)
            if vectors.shape[1] > 1:
                rows = [int(next(iter(judged.qrels[each.query_id]))) for each in judged.queries]
                of_own = np.einsum("qvd,qd->qv", vectors[rows], embedded.queries)
                first = float((of_own.argmax(axis=1) == 0).mean())
                of_vectors = {"alike": task.alike(vectors), "first_is_best": first}
            found |= {system: dense, **words}
            if system in HYBRID:
                found[HYBRID] = task.tuned(dense, words["BM25-uni"], judged, tested)
    mrr = {n: fmean(task.reciprocal_ranks(each, judged)[:tested]) for n, each in found.items()}
    return {"seconds": seconds, "mrr": mrr, **of_vectors}


def collected(options: Namespace, found: Found) -> Figures:
    def runs_of(name: str, length: int = LENGTHS[0]) -> list[Figures]:
        return [each for (*of, _), each in found.items() if of == [name, length]]

    def mrr(system: str, length: int = LENGTHS[0]) -> Figures:
        # BM25 is measured with each model, and hybrid search with one.
        model = "ME-384" if system == HYBRID else "DE-32" if system.startswith("BM25") else system
        return over_seeds([each["mrr"][system] for each in runs_of(model, length)])

    every = {name: runs_of(name) for name in (*models.SYSTEMS, models.CROSS)}
    several = {n: runs_of(n)[1:] for n, shape in models.SHAPES.items() if "vectors" in shape}
    return {
        "plot": "long-documents.svg",
        "lengths": LENGTHS,
        "rows": {name: [mrr(name, length) for length in LENGTHS] for name in PAPER},
        "bytes": {n: 4 * s["dim"] * s.get("vectors", 1) for n, s in models.SHAPES.items()},
        "by_size": [{name: mrr(name) for name in names} for names in BY_SIZE],
        "paper": PAPER,
        "seeds": options.seeds,
        "minutes": {name: of[-1]["seconds"] / 60 for name, of in every.items()},
        # The runs of the first seed, which are older, lack these.
        "vectors": {
            name: {kind: fmean(each[kind] for each in of) for kind in ("alike", "first_is_best")}
            for name, of in several.items()
            if of
        },
        "settings": models.SETTINGS,
        "of_cross": {
            "name": models.CROSS, "start": models.CROSS_START, "reranked": RERANKED,
            "epochs": models.CROSS_EPOCHS,
            **models.CROSS_SETTINGS,
        },
        "counts": {name: COUNTS[name] for name in ("passages", "queries", "trained_on")},
        "source": SOURCE,
        "runs": {name_of(run): each for run, each in found.items()},
    }  # fmt: skip


def draw(_work: Path, figures: Figures, folder: Path) -> None:
    """Draw what was found beside what the paper has (figure 4, right)."""
    here = {n: [100 * each["mean"] for each in row] for n, row in figures["rows"].items()}
    panels = [
        LinePanel(
            "MRR@10, %",
            [Curve(name, np.array(LENGTHS, float), np.array(row[: len(LENGTHS)]))
             for name, row in found.items()],
            x_label="tokens of a passage", title=title, markers=True, y_limits=(0, 102),
        )
        for title, found in (("here", here), ("002", PAPER))
    ]  # fmt: skip
    save_figure(plot_lines(panels), folder / figures["plot"])


def main() -> None:
    EXPERIMENT.main(runs, figures_of, collected, draw)


if __name__ == "__main__":
    main()
