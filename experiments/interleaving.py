"""Interleaved answers beside a split of the traffic: how often each errs, how soon each finds.

    python -m experiments.interleaving --data DATA

Rankings are of real indexes and queries, users are simulated. Takes half an hour of a core.
"""

import json
from argparse import Namespace
from collections.abc import Sequence
from itertools import product
from random import Random
from statistics import fmean
from typing import Any

from scipy.stats import ttest_ind

import swiftlet
from experiments import indexes
from measuring.experiment import Experiment, Found, file_of, settings_beside
from measuring.results import Figures, at_most
from swiftlet.encoders import DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.evaluation.experiment import run_queries
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.relevance.interleaving import BOTH, CHALLENGER, TODAY, anytime_p, team_draft

SETTINGS = settings_beside(__file__)
EXPERIMENT = Experiment(
    "interleaving", __doc__, SETTINGS["collections"], ["onnxruntime", "faiss-cpu", "tantivy"]
)
PAIRS: dict[str, tuple[str, str]] = SETTINGS["pairs"]
USERS: dict[str, dict[str, Any]] = SETTINGS["users"]
OF: dict[str, Any] = SETTINGS["simulation"]
DEPTH = 10


def figures_of(options: Namespace, kind: str, name: str, user: str) -> Figures:
    """The rankings of all systems, or the searches of a kind of users over two of them."""
    if kind == "rankings":
        return rankings_of(options, name)
    collection, pair = name.split(": ")
    ranked = json.loads(file_of(options.work, ("rankings", collection, "")).read_text("utf-8"))
    pairs = list(zip(*(ranked["rankings"][system] for system in PAIRS[pair]), strict=True))
    return {
        "collection": collection,
        "pair": pair,
        "user": user,
        "ndcg": [ranked["ndcg"][system] for system in PAIRS[pair]],
        "found": outcomes(pairs, USERS[user], is_null=False),
        "null": outcomes(pairs, USERS[user], is_null=True),
    }


def rankings_of(options: Namespace, name: str) -> Figures:
    """Of each system, the rankings of some queries and its nDCG@10."""
    found = indexes.collections(options.data)[name]()
    place = indexes.index_of(indexes.folder_of(options, name), found)
    queries = Random(0).sample([*found.queries], min(SETTINGS["queries"], len(found.queries)))
    qrels = {each.query_id: found.qrels[each.query_id] for each in queries}
    rankings, ndcg = {}, {}
    for system, fields in SETTINGS["systems"].items():
        encoder = LOOKUP_QUERY_ENCODER if system == "look-up" else DEFAULT_QUERY_ENCODER
        with swiftlet.open(place, encoder=encoder) as searcher:
            run = run_queries(SearcherRetriever(searcher, **fields), queries, top_k=DEPTH)
        rankings[system] = [
            [(d, grades.get(d, 0) > 0) for d in run[q]] for q, grades in qrels.items()
        ]
        values = evaluate_per_query(run, qrels, [indexes.METRIC])[indexes.METRIC]
        ndcg[system] = fmean(values.values())
    return {"rankings": rankings, "ndcg": ndcg}


def clicks(ranking: Sequence[Any], user: dict[str, Any], draw: Random) -> list[int]:
    """The places that a user opens."""
    opened = []
    for place, (_, is_relevant) in enumerate(ranking):
        further = user["further"]
        if draw.random() < user["click"][is_relevant]:
            opened.append(place)
            further = user["on"][is_relevant]
        if draw.random() > further:
            break
    return opened


def outcomes(pairs: Sequence[Any], user: dict[str, Any], *, is_null: bool) -> Figures:
    """How often a difference is called, by way to compare and number of searches.

    :param is_null: Whether it is drawn anew for each search which ranking is whose: then none is
        better.
    """
    called = {way: [0] * len(OF["searches"]) for way in ("interleaved", "split", "split, watched")}
    for number in range(OF["repetitions"]):
        draw = Random(number)
        votes, firsts = list[bool](), (list[float](), list[float]())
        is_called = False
        for count in range(1, OF["searches"][-1] + 1):
            pair = draw.choice(pairs)
            one, other = draw.sample(pair, 2) if is_null else pair
            mixed, teams = team_draft(one, other, lambda each: each[0], draw)
            given = [teams[place] for place in clicks(mixed, user, draw) if teams[place] != BOTH]
            if balance := given.count(CHALLENGER) - given.count(TODAY):
                votes.append(balance > 0)
            half = draw.randrange(2)
            opened = clicks((one, other)[half], user, draw)
            firsts[half].append(1 / (opened[0] + 1) if opened else 0.0)
            if count % OF["looks"] == 0 or count in OF["searches"]:
                is_split = bool(ttest_ind(*firsts, equal_var=False).pvalue <= OF["level"])
                is_called |= is_split
            if count in OF["searches"]:
                place = OF["searches"].index(count)
                called["interleaved"][place] += anytime_p(votes) <= OF["level"]
                called["split"][place] += is_split
                called["split, watched"][place] += is_called
    return {way: [each / OF["repetitions"] for each in counts] for way, counts in called.items()}


def collected(_options: Namespace, found: Found) -> Figures:
    rows = [row for (kind, *_), row in found.items() if kind == "users"]

    different = [r for r in rows if abs(r["ndcg"][1] - r["ndcg"][0]) >= OF["difference"]]

    def mean(kind: str, way: str) -> list[float]:
        of = rows if kind == "null" else different or rows
        return [fmean(each) for each in zip(*(row[kind][way] for row in of), strict=True)]

    ways = [*rows[0]["found"]]
    return {
        "settings": SETTINGS,
        "rows": rows,
        "means": {kind: {way: mean(kind, way) for way in ways} for kind in ("found", "null")},
        "worst": max(row["null"]["interleaved"][-1] for row in rows),
        "different": len(different),
        "bounds": [
            at_most(
                "comparisons of equals that interleaved answers call different",
                mean("null", "interleaved")[-1],
                OF["level"],
                lambda share: f"{share:.1%}",
            )
        ],
    }


if __name__ == "__main__":
    rankings = [("rankings", name, "") for name in SETTINGS["collections"]]
    every = product(SETTINGS["collections"], PAIRS, USERS)
    users = [("users", f"{name}: {pair}", user) for name, pair, user in every]
    EXPERIMENT.main(lambda _: [rankings, users], figures_of, collected)
