"""Other ways to train a pair, alone and on top of DAFT: table 2 of 000 in miniature.

    python -m experiments.companions --data DATA

    python -m experiments.companions --data DATA --only control    (the row that decides)

Takes an hour and a half of one core with AVX2 alone for each seed, and the control and DAFT half an
hour. Their figures then stand on the page beside those of the other rows.
"""

import json
from argparse import Namespace
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from experiments.data import write_qrels
from experiments.pairs import Pair, run_of, shortened
from export.latency import measure_latencies
from export.quality import Collection
from measuring.experiment import Experiment, Found, Run, laid_over, name_of, settings_beside
from measuring.machine import describe_machine, processor_kind
from measuring.results import Figures, by_query, over_seeds
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder, Precision
from swiftlet.evaluation.comparison import LEVEL, lettered
from swiftlet.evaluation.exact import exact_run
from swiftlet.evaluation.experiment import JudgedSet
from swiftlet.evaluation.metrics import evaluate_per_query
from training.data.judged_split import split_by_documents
from training.recipes.settings import parse_recipe

SETTINGS = settings_beside(__file__)
TARGET: str = SETTINGS["target"]
METRICS, TOKENS, METHODS, ON_TOP = (SETTINGS[n] for n in ("metrics", "tokens", "methods", "on_top"))
# Other processors are slower in bf16.
PRECISION = "bf16" if processor_kind() == "AMX" else "fp32"
BASE = laid_over(SETTINGS["base"], {"optimiser": {"precision": PRECISION}})
SHIPPED: Precision = "int8"
CONTROL = ("DAFT", "the cache's negatives, twice as long")
QRELS, START, TEACHER = "training.tsv", "before training", "the document encoder for both"
EXPERIMENT = Experiment(
    "companions", __doc__, [TARGET], ["torch", "transformers", "onnxruntime"], seeds=3, jobs=2
)


def runs(options: Namespace) -> list[list[Run]]:
    """What others begin with is finished first."""
    write_qrels(parts(options.data)[0].qrels, options.work / QRELS)
    seeds = range(options.seeds)
    if options.only:
        return [[(name, seed) for seed in seeds for name in CONTROL]]
    trained = [[(name, seed) for seed in seeds for name in some] for some in (METHODS, ON_TOP)]
    return [[(START, 0), (TEACHER, 0)], *trained]


def parts(data: Path) -> tuple[Collection, Collection]:
    """The collection with the queries to learn from, and with those of the test."""
    whole = Collection.read(data / TARGET, "all")
    learnt, test = (
        replace(whole, queries=some, qrels={q.query_id: whole.qrels[q.query_id] for q in some})
        for some in split_by_documents(JudgedSet(whole.queries, whole.qrels, ""))
    )
    return learnt, test


def figures_of(options: Namespace, name: str, seed: int) -> Figures:
    """The metrics of each query, and the milliseconds of encoding one."""
    (learnt, test), pair = parts(options.data), pair_of(options, name, seed)
    encoders = pair.document_encoder, pair.query_encoder
    found = exact_run(*encoders, test.documents, test.queries, 1000, threads=1)
    texts = [query.text for query in test.queries[:50]]
    seconds = measure_latencies({name: pair.query_encoder}, {10: texts})
    return {
        "values": evaluate_per_query(found, test.qrels, METRICS),
        "ms": 1000 * seconds[name][10],
        "sizes": {
            "documents": len(learnt.documents), "learnt": len(learnt.queries),
            "tested": len(test.queries),
        },
    }  # fmt: skip


def pair_of(options: Namespace, name: str, seed: int) -> Pair:
    """The encoders of a method, which are trained unless they are there."""
    if name in (START, TEACHER):
        # It reads no more of a document than the trained ones.
        documents = shortened(DEFAULT_ENCODER, TOKENS, SHIPPED)
        student = OnnxEncoder.load(DEFAULT_QUERY_ENCODER, precision=SHIPPED)
        return Pair(documents if name == TEACHER else student, documents)
    query, document = DEFAULT_QUERY_ENCODER, DEFAULT_ENCODER
    if name in ON_TOP:
        before = options.work / name_of((ON_TOP[name], seed))
        query, document = before / "query_encoder", before / "document_encoder"
    source = {"corpus": f"{options.data / TARGET}", "qrels": f"{options.work / QRELS}"}
    recipe = {
        **laid_over(BASE, SETTINGS["adore"] if name in ON_TOP else method(name)),
        "seed": seed,
        "data": [source],
        "embedding_cache": f"{options.work / 'frozen'}",
        "passages": {"tokens": TOKENS, "truncate": True},
        "query_encoder": {"model": f"{query}"},
        "document_encoder": {"model": f"{document}", "max_tokens": TOKENS},
    }
    run = run_of(parse_recipe(recipe, name), options.work / name_of((name, seed)))
    return Pair.of(run, SHIPPED)


def method(name: str) -> dict[str, Any]:
    """The tables of a recipe that a method changes."""
    tables = dict(METHODS[name])
    for other in tables.pop("like", []):
        tables = laid_over(method(other), tables)
    return tables


def collected(options: Namespace, found: Found) -> Figures:
    """The figures of a page, or the page's own with the control beside them."""
    if not options.only:
        return compared(found)
    page: Figures = json.loads(options.raw.read_text("utf-8"))
    machine = describe_machine(EXPERIMENT.packages, threads=f"1 a run, {options.jobs} at a time")
    return page | {"control": {**compared(found), "machine": machine}}


def compared(found: Found) -> Figures:
    """Means of the seeds by query, compared by paired tests."""
    runs = {name: [each for (n, _), each in found.items() if n == name] for name, _ in found}
    rows = {
        name: {m: by_query([each["values"][m] for each in of]) for m in METRICS}
        for name, of in runs.items()
    }
    # All query encoders but the teacher have one architecture.
    time = median(e["ms"] for (name, _), e in found.items() if name != TEACHER)
    ms = {name: found[name, 0]["ms"] if name == TEACHER else time for name in rows}
    means = {
        name: over_seeds([fmean(each["values"][METRICS[0]].values()) for each in of])
        for name, of in runs.items()
    }
    return {
        "target": TARGET,
        "comparison": {
            "columns": [{"collection": TARGET, "metric": metric} for metric in METRICS],
            "rows": [*map(asdict, lettered(rows))],
            "plain_columns": [{"figures": ms}],
            "significance_level": LEVEL,
        },
        "means": {name: fmean(rows[name][METRICS[0]].values()) for name in rows},
        "half": {name: each["half"] for name, each in means.items()},
        "seeds": max(seed for _, seed in found) + 1,
        **{name: BASE[name] for name in ("optimiser", "validation")},
        "per_query": BASE["negatives"]["per_query"],
        "tokens": TOKENS,
        "start": START,
        "teacher": TEACHER,
        "longer": "STAR, twice as long",
        "on_top": ON_TOP,
        "sizes": next(iter(found.values()))["sizes"],
    }


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected, only=("", "control"))
