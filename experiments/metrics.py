"""Hybrid search by other metrics than the cosine, with the same vectors: nDCG@10 by scale.

    python -m experiments.metrics --data DATA

DATA has the collections in BEIR's layout. Takes a quarter of an hour on 2 cores.
"""

from argparse import Namespace
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import swiftlet
from experiments import indexes
from experiments.indexes import METRIC, index_of, some_queries
from export.quality import Collection
from measuring.experiment import Experiment, Found
from measuring.results import Figures, means
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.index.parts import FixedIndex
from swiftlet.index.vectors.dense_scale import measured_scale
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.tuning import exact_rows
from swiftlet.index.vectors.vector_index import scores_by
from swiftlet.search.searcher import Searcher
from swiftlet.types import Embeddings

COLLECTIONS = ["scifact", "wikiqa", "stackfaq"]
EXPERIMENT = Experiment("metrics", __doc__, COLLECTIONS, ["onnxruntime", "faiss-cpu", "tantivy"])
# The metric, and the deviations of the logarithms of the lengths of passages and of queries.
VARIANTS = {
    "cosine": ("inner_product", 0.0, 0.0),
    "squared distance": ("l2", 0.0, 0.0),
    "squared distance, lengths ±10%": ("l2", 0.1, 0.1),
    "inner product, queries of any length": ("inner_product", 0.0, 1.0),
    "inner product, lengths ±10%": ("inner_product", 0.1, 0.1),
    "inner product, lengths ±30%": ("inner_product", 0.3, 0.3),
}
SYSTEMS = ["dense", "by lengths", "by spread", "none", "rrf"]
FIELDS: dict[str, dict[str, Any]] = {"dense": {"mode": "dense"}, "rrf": {"fusion": "rrf"}}
QUERIES, NEAREST = 100, 100


@dataclass(frozen=True)
class Spread:
    """Gives the scores of the nearest passages the mean and the deviation that cosines have."""

    ours: tuple[float, float]
    cosines: tuple[float, float]

    def of(self, scores: Embeddings, _: Embeddings) -> Embeddings:
        """The scores (n,) on this scale."""
        found = (scores - self.ours[0]) / self.ours[1] * self.cosines[1] + self.cosines[0]
        return found.astype(np.float32)


def opened(options: Namespace, name: str) -> tuple[Searcher, Embeddings, Collection, list[str]]:
    """The searcher of a collection, its passages' embeddings, and the ids of some queries."""
    found = indexes.collections(options.data)[name]()
    place = index_of(indexes.folder_of(options, name), found)
    searcher = swiftlet.open(place, encoder=DEFAULT_QUERY_ENCODER)
    passages = searcher.parts.index.embeddings(np.arange(searcher.num_passages))  # type: ignore[attr-defined]
    passages /= np.linalg.norm(passages, axis=1, keepdims=True)
    queries, _ = some_queries(found)
    return searcher, passages, found, [query.query_id for query in queries[:QUERIES]]


def spread_of(metric: str, passages: Embeddings, queries: Embeddings) -> tuple[float, float]:
    """The mean and the deviation of the scores of the nearest passages of all queries."""
    rows = exact_rows(passages, queries, NEAREST, metric)
    scores = [scores_by(metric, passages[some], q) for some, q in zip(rows, queries, strict=True)]
    return float(np.mean(scores)), float(np.std(scores))


def figures_of(options: Namespace, name: str) -> Figures:
    """The metric by variant, system and query; cosines are those of the other collections."""
    others = []
    for other in COLLECTIONS:
        if other != name:
            searcher, passages, found, ids = opened(options, other)
            asked = [query.text for query in found.queries if query.query_id in {*ids}]
            placed = searcher.encoder.encode(asked)
            others.append(spread_of("inner_product", passages, placed))
    cosines = float(np.mean([each[0] for each in others])), float(np.mean([e[1] for e in others]))
    searcher, passages, found, ids = opened(options, name)
    texts = {query.query_id: query.text for query in found.queries}
    places, random = (
        searcher.encoder.encode([texts[each] for each in ids]),
        np.random.default_rng(0),
    )
    values = {}
    for variant, (metric, of_passages, of_queries) in VARIANTS.items():
        rows = passages * np.exp(of_passages * random.normal(size=(len(passages), 1)))
        placed = places * np.exp(of_queries * random.normal(size=(len(places), 1)))
        rows, placed = rows.astype(np.float32), placed.astype(np.float32)
        index = FaissIndex.create("Flat", rows.shape[1], metric)
        index.add(rows)
        details = {**searcher.index_manifest.details, "dense_scale": measured_scale(rows)}
        is_cosine = variant == "cosine"
        manifest = replace(
            searcher.index_manifest, metric=metric, normalised=is_cosine, details=details
        )
        parts = replace(searcher.parts, index=index)
        changed = Searcher(FixedIndex(parts, manifest), searcher.encoder_manifest)
        scales = {
            "by spread": Spread(spread_of(metric, rows, placed), cosines),
            "none": Spread((0, 1), (0, 1)),
        }
        by_lengths = changed.scale
        for system in SYSTEMS:
            changed.scale = scales.get(system, by_lengths)  # type: ignore[assignment]
            fields = FIELDS.get(system, {})
            run = {}
            for each, place in zip(ids, placed, strict=True):
                hits = changed.search(
                    texts[each], embedding=place, include_text=False, **fields
                ).hits
                run[each] = {hit.document_id: hit.score for hit in hits}
            judged = {each: found.qrels[each] for each in ids}
            values[f"{variant}: {system}"] = evaluate_per_query(run, judged, [METRIC])[METRIC]
    return {"passages": len(passages), "queries": len(ids), "values": values}


def collected(_options: Namespace, found: Found) -> Figures:
    rows = {name: {**row} for (name,), row in found.items()}
    for row in rows.values():
        row["ndcg"] = means(row.pop("values"))
    return {"rows": rows, "variants": [*VARIANTS], "systems": SYSTEMS}


if __name__ == "__main__":
    EXPERIMENT.main(lambda _: [[(name,) for name in COLLECTIONS]], figures_of, collected)
