"""Where a line for weak hits lies, by random words, and what is below and above it.

    python -m experiments.weak --data DATA

DATA has the collections in BEIR's layout. Takes a quarter of an hour on 2 cores.
"""

import random
from argparse import Namespace
from typing import Any

import numpy as np

import swiftlet
from experiments import indexes
from experiments.indexes import index_of, some_queries
from export.quality import Collection
from measuring.experiment import Experiment, Found
from measuring.results import Figures
from swiftlet.search.request import MODES
from swiftlet.search.searcher import Searcher
from swiftlet.search.weak import NUM_QUERIES, random_queries

COLLECTIONS = ["squad-dev-v1.1", "stackfaq", "scifact"]
EXPERIMENT = Experiment("weak", __doc__, COLLECTIONS, ["onnxruntime", "faiss-cpu", "tantivy"])
QUERIES, TOP_K = 200, 10
QUANTILES = (0.25, 0.5, 0.75, 0.9)
SHARES = ("foreign", "relevant", "irrelevant", "answered")


def _best(searcher: Searcher, texts: list[str], mode: Any) -> list[float]:
    found = (searcher.search(text, 1, mode=mode).hits for text in texts)
    return [max((hit.score for hit in hits), default=0.0) for hits in found]


def _asked(found: Collection) -> list[tuple[str, str]]:
    queries, _ = some_queries(found)
    chosen = random.Random(0).sample(queries, min(QUERIES, len(queries)))
    return [(query.query_id, query.text) for query in chosen]


def figures_of(options: Namespace, name: str) -> Figures:
    """By mode and quantile of random queries: the line, and the shares below and above it."""
    read = indexes.collections(options.data)
    found = read[name]()
    own = _asked(found)
    foreign = [text for other in COLLECTIONS if other != name for _, text in _asked(read[other]())]
    rows = []
    with swiftlet.open(index_of(indexes.folder_of(options, name), found)) as searcher:
        random_words = random_queries(searcher, 2 * NUM_QUERIES)
        for mode in MODES:
            drawn = np.array(_best(searcher, random_words, mode))
            others = np.array(_best(searcher, foreign, mode))
            relevant, irrelevant, best = list[float](), list[float](), list[float]()
            for query_id, text in own:
                hits = searcher.search(text, TOP_K, mode=mode).hits
                best.append(max((hit.score for hit in hits), default=0.0))
                for hit in hits:
                    is_relevant = found.qrels[query_id].get(hit.document_id, 0) > 0
                    (relevant if is_relevant else irrelevant).append(hit.score)
            for quantile in QUANTILES:
                line = float(np.quantile(drawn, quantile))
                halves = [float(np.quantile(half, quantile)) for half in np.array_split(drawn, 2)]
                above = [
                    others >= line,
                    *(np.array(each) < line for each in (relevant, irrelevant)),
                ]
                shares = [*above, np.array(best) >= line]
                rows.append(
                    {"mode": mode, "quantile": quantile, "line": line, "halves": halves}
                    | {key: float(each.mean()) for key, each in zip(SHARES, shares, strict=True)}
                )
    return {"queries": len(own), "foreign": len(foreign), "rows": rows}


def collected(_options: Namespace, found: Found) -> Figures:
    return {"collections": {name: {**row} for (name,), row in found.items()}, "top_k": TOP_K}


if __name__ == "__main__":
    EXPERIMENT.main(lambda _: [[(name,) for name in COLLECTIONS]], figures_of, collected)
