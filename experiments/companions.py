"""Other ways to train a pair, alone and on top of DAFT: table 2 of 000 in miniature.

    python -m experiments.companions --data DATA

DATA is the folder of the collections. Runs are kept in --work, and an interrupted one goes on. With
--seeds 1, only the first seed is run. Writes docs/results/companions.json and its page. Takes an
hour and a half of one core with AVX2 alone for each seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

from experiments import hybrid
from experiments.pairs import Pair, run_of
from export.encoder_directory import export_encoder
from export.latency import measure_latencies
from export.quality import Collection
from measuring.command_line import script_options
from measuring.comparison import PlainColumn, compare
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from measuring.runs import PRECISION, measured
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder, Precision
from swiftlet.evaluation.exact import exact_run
from swiftlet.evaluation.experiment import Judgements
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.types import Query
from training.data.judged_split import split_by_documents
from training.model.towers import Tower, TowerSettings

TARGET, SPLIT = "medquad", "all"
METRICS = ("nDCG@10", "R@1000", "MRR@10", "P@1", "Holes@10")
QRELS = "training.tsv"
# Few, so that training is affordable without AMX.
TOKENS = 32
# That in which the encoders ship.
SHIPPED: Precision = "int8"
START, TEACHER = "before training", "the document encoder for both"
# Other settings of the recipe, and the method that a second run begins with.
IN_BATCH = {"negatives": {"samplers": ["in_batch"]}}
STAR = {
    "negatives": {
        "samplers": ["mined", "in_batch"],
        "per_query": 1,
        "refresh_every": 0,
        "depth": 50,
    }
}
TCT = {**IN_BATCH, "loss": {"teacher_weight": 0.9}}
DAFT = {"recipe": "daft"}
# With as many steps as both stages of DAFT.
LONGER = "STAR, twice as long"
METHODS: dict[str, dict[str, Any]] = {
    "in-batch negatives": IN_BATCH,
    "STAR": STAR,
    "TCT": TCT,
    LONGER: STAR | {"fine_tuning": {"epochs": 0.5}},
    "DAFT": DAFT,
    "DAFT with STAR's negatives": DAFT | STAR,
    "DAFT with TCT's teacher": DAFT | TCT,
}
ON_TOP = {"STAR, then ADORE": "STAR", "DAFT, then ADORE": "DAFT"}
ADORE = {
    "recipe": "adore",
    "loss": {"kind": "lambda"},
    "negatives": {"samplers": ["dynamic"], "per_query": 50},
    "optimiser": {"learning_rate": 2e-5},
    # All documents: they are encoded once, so that this costs nothing.
    "validation": {"max_passages": 20_000},
}
BASE: dict[str, Any] = {
    "recipe": "contrastive",
    "query_encoder": {"model": f"{DEFAULT_QUERY_ENCODER}"},
    "document_encoder": {"model": f"{DEFAULT_ENCODER}", "max_tokens": TOKENS},
    "dual_encoder": {"projection": "none"},
    "passages": {"tokens": TOKENS, "truncate": True},
    "validation": {"queries": 200, "max_passages": 2000},
    "negatives": {"per_query": 8},
    "optimiser": {
        "learning_rate": 1e-4,
        "document_learning_rate": 1e-5,
        "warmup_steps": 10,
        "batch_size": 32,
        "precision": PRECISION,
    },
    "alignment": {"max_epochs": 0.25},
    "fine_tuning": {"epochs": 0.25},
}


def main() -> None:
    raw, work = RESULTS / "companions.json", hybrid.WORK.with_name("companions")
    options = script_options(__doc__, data=Path, work=work, seeds=3, jobs=2, raw=raw)
    data, work = options.data.resolve(), options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    learnt, test = parts(data)
    write_qrels(learnt, work / QRELS)
    measure = partial(figures_of, data, work)
    found: dict[tuple[str, int], Figures] = {}
    # What others begin with is finished first.
    for names in ((START, TEACHER), METHODS, ON_TOP):
        seeds = 1 if START in names else options.seeds
        runs = [(name, seed) for seed in range(seeds) for name in names]
        found |= measured(measure, runs, options.work, options.jobs)
    sizes = {
        "documents": len(learnt.documents),
        "learnt": len(learnt.queries),
        "tested": len(test.queries),
    }
    print(write(options.raw, collected(found, options.jobs) | {"sizes": sizes}))


def collected(found: Mapping[tuple[str, int], Figures], jobs: int) -> Figures:
    """The figures of a page: means of the seeds by query, compared by paired tests."""
    rows = {}
    for name in dict.fromkeys(name for name, _ in found):
        runs = [each["values"] for (n, _), each in found.items() if n == name]
        rows[name] = {TARGET: {m: _mean_by_query([each[m] for each in runs]) for m in METRICS}}
    # All query encoders but the teacher have one architecture, so one time.
    ms = {
        name: median(e["ms"] for (n, _), e in found.items() if (n == TEACHER) == (name == TEACHER))
        for name in rows
    }
    spreads = {
        name: _spread(
            [fmean(e["values"]["nDCG@10"].values()) for (n, _), e in found.items() if n == name]
        )
        for name in rows
    }
    return {
        "template": "experiments/companions.md.j2",
        "machine": describe_machine(
            ["torch", "transformers", "onnxruntime"], threads=f"1 for each of {jobs} runs"
        ),
        "target": TARGET,
        "comparison": asdict(compare(rows, plain_columns=[PlainColumn("ms a query", ms, 2)])),
        "means": {name: fmean(rows[name][TARGET]["nDCG@10"].values()) for name in rows},
        "half": spreads,
        "seeds": max(seed for _, seed in found) + 1,
        "optimiser": BASE["optimiser"],
        "validation": BASE["validation"],
        "per_query": BASE["negatives"]["per_query"],
        "tokens": TOKENS,
        "start": START,
        "teacher": TEACHER,
        "longer": LONGER,
        "on_top": ON_TOP,
    }


def _mean_by_query(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {query: fmean(each[query] for each in runs) for query in runs[0]}


def _spread(means: Sequence[float]) -> float:
    return (max(means) - min(means)) / 2


def parts(data: Path) -> tuple[Collection, Collection]:
    """The collection with the queries to learn from, and with those of the test."""
    whole = Collection.read(data / TARGET, SPLIT)

    def part(queries: list[Query]) -> Collection:
        qrels = {query.query_id: whole.qrels[query.query_id] for query in queries}
        return replace(whole, queries=queries, qrels=qrels)

    learnt, test = split_by_documents(Judgements(whole.queries, whole.qrels, ""))
    return part(learnt), part(test)


def write_qrels(collection: Collection, path: Path) -> None:
    rows = [
        f"{query_id}\t{document_id}\t{grade}"
        for query_id, grades in collection.qrels.items()
        for document_id, grade in grades.items()
    ]
    path.write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]), "utf-8")


def figures_of(data: Path, work: Path, name: str, seed: int) -> Figures:
    """The metrics of each query, and the milliseconds of encoding one."""
    _, test = parts(data)
    pair = pair_of(data, work, name, seed)
    found = exact_run(
        pair.document_encoder, pair.query_encoder, test.documents, test.queries, 1000, threads=1
    )
    texts = {10: [query.text for query in test.queries[:50]]}
    seconds = measure_latencies({name: pair.query_encoder}, texts)
    return {
        "values": evaluate_per_query(found, test.qrels, METRICS),
        "ms": 1000 * seconds[name][10],
    }


def pair_of(data: Path, work: Path, name: str, seed: int) -> Pair:
    """The encoders of a method, which are trained unless they are there."""
    if name in (START, TEACHER):
        documents = document_encoder()
        if name == TEACHER:
            return Pair(documents, documents)
        return Pair(OnnxEncoder.load(DEFAULT_QUERY_ENCODER, precision=SHIPPED), documents)
    source = {"corpus": f"{data / TARGET}", "qrels": f"{work / QRELS}"}
    recipe = BASE | {"seed": seed, "data": [source], "embedding_cache": f"{work / 'frozen'}"}
    changes = ADORE if name in ON_TOP else METHODS[name]
    for table, value in changes.items():
        recipe[table] = recipe.get(table, {}) | value if isinstance(value, dict) else value
    if name in ON_TOP:
        before = work / f"{ON_TOP[name]}, {seed}"
        recipe["query_encoder"] = {"model": f"{before / 'query_encoder'}"}
        recipe["document_encoder"] = {
            "model": f"{before / 'document_encoder'}",
            "max_tokens": TOKENS,
        }
    return Pair.of(run_of(name, recipe, work / f"{name}, {seed}"), SHIPPED)


def document_encoder() -> OnnxEncoder:
    """The document encoder that ships, which reads no more of a document than the trained ones."""
    with TemporaryDirectory() as working:
        model, exported = Path(working, "model"), Path(working, "exported")
        Tower.load(TowerSettings(DEFAULT_ENCODER, max_tokens=TOKENS)).save(model)
        export_encoder(model, exported, precisions=[SHIPPED])
        return OnnxEncoder.load(exported)


if __name__ == "__main__":
    main()
