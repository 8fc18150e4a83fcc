"""Encoders that are adapted to a collection, with judged queries and without, in its domain.

    python -m experiments.adapt --data DATA

DATA and --work are as for experiments/hybrid.py; its indexes are used again, and so are the
re-rankers of experiments/reranking.py. Finished runs are kept in --work, and an interrupted
experiment goes on. Writes docs/results/adapt.json and its page. Takes nine hours on 2 cores, one
for each of two runs at a time.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from experiments import hybrid
from experiments.adaptation import Stages
from export.encoder_directory import export_encoder
from export.quality import Collection
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from measuring.runs import measured
from swiftlet.cli.models.adaptation import OF_LOOKUP, Adaptation
from swiftlet.corpora.collections import read_qrels
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.evaluation.experiment import Judgements
from swiftlet.evaluation.significance import paired_t_test
from swiftlet.types import Document, Query
from training.distillation.adaptation_texts import AdaptationTexts, judged_queries, known_items
from training.distillation.settings import Judged
from training.model.trained import TOWERS
from training.recipes.settings import read_recipe
from training.train import train

# The qrels to learn from. A part of medquad's is the test; the others have tests of their own.
TARGETS = {"squad-dev-v1.1": "train", "qmsum": "train", "medquad": "all"}
GUARDS = ["scifact", "covid-qa", "boolq"]
WORDS = "BM25"
STUDENTS = {"two layers": DEFAULT_QUERY_ENCODER, "look-up": LOOKUP_QUERY_ENCODER}
START = {WORDS: DEFAULT_ENCODER, "document encoder": DEFAULT_ENCODER, **STUDENTS}
SENTENCES, PHRASES, TITLES = "sentences", "sentences and key phrases", "titles"
JUDGED, PAIR = "judged queries", "both encoders"
RERANKED = "soft targets of a cross-encoder"
# Medquad has no re-ranker of its own.
RERANKER_OF = {"medquad": "squad-dev-v1.1"}
# Judged queries, and the scores of the document encoder, or of the cross-encoder of the same seed.
SOFT: dict[str, dict[str, Any]] = {
    "soft targets by KL": {"ranking": 1.0},
    "soft targets by margins": {"ranking": 1.0, "ranking_loss": "margin_mse"},
    RERANKED: {"ranking": 1.0},
}
# Other shares of the initial weights than the recipe's, with the first seed.
SHARES: dict[str, dict[str, Any]] = {
    f"{PAIR}, average {share}": {"fine_tuning.average": share} for share in (0.5, 0.7)
}
# Titles and these shares are measured on the target with which no setting was chosen. Of the
# others, one has no titles, and one has 48.
FEW_ON = "medquad"
METHODS = {
    "two layers": [SENTENCES, PHRASES, TITLES, JUDGED, *SOFT, PAIR, *SHARES],
    "look-up": [SENTENCES, PHRASES, JUDGED, PAIR],
}
RECIPE = Path(__file__).parents[1] / "training" / "recipes" / "own-corpus.toml"
SETTINGS = {"optimiser.precision": "bf16"}
OF_STUDENT = {"look-up": {"optimiser.learning_rate": OF_LOOKUP["learning_rate"]}}
SEEDS = (0, 1, 2)
PHRASE_WORDS = 5


def main() -> None:
    raw = RESULTS / "adapt.json"
    options = script_options(__doc__, data=Path, work=hybrid.WORK, jobs=2, raw=raw)
    os.environ["OMP_NUM_THREADS"] = "1"  # of the indexes that are built here, too
    print(write(options.raw, measure(options.data.resolve(), options.work, options.jobs)))


def measure(data: Path, work: Path, jobs: int) -> Figures:
    for name in (*TARGETS, *GUARDS):
        hybrid.index_of(work / name, hybrid.collections(data)[name]())
    adapted = [f"{student}, {each}" for student, methods in METHODS.items() for each in methods]
    runs = [(target, system, 0) for target in TARGETS for system in START]
    for seed, target, system in product(SEEDS, TARGETS, adapted):
        _, _, method = system.partition(", ")
        if (method in SHARES and seed) or (method in (TITLES, *SHARES) and target != FEW_ON):
            continue
        runs.append((target, system, seed))
    found = measured(partial(figures_of, data, work), runs, work, jobs)
    rows: dict[str, Figures] = {target: {} for target in TARGETS}
    for target, system, _ in runs:
        of_seeds = [each for named, each in found.items() if named[:2] == (target, system)]
        before = found[target, system.partition(", ")[0], 0]
        rows[target][system] = row_of(of_seeds, before)
    threads = f"1 for each of {jobs} runs at a time"
    return {
        "template": "experiments/adapt.md.j2",
        "machine": describe_machine(["torch", "onnxruntime", "faiss-cpu"], threads=threads),
        "rows": rows,
        "methods": METHODS,
        "settings": SETTINGS,
        "of_student": OF_STUDENT,
        "guards": GUARDS,
    }


def figures_of(data: Path, work: Path, target: str, system: str, seed: int) -> Figures:
    """The processor seconds of the training, nDCG@10 by query, and its mean on the guards."""
    read = hybrid.collections(data)
    learnt, test = Collection.read(data / target, TARGETS[target]), read[target]()
    index = hybrid.index_of(work / target, test)
    student, _, method = system.partition(", ")
    encoder, documents, seconds = START[student], DEFAULT_ENCODER, 0.0
    with TemporaryDirectory() as working:
        judgements = Judgements(learnt.queries, learnt.qrels, "")
        texts = judged_queries(index, judgements, Path(working), seed)
        if test.split == learnt.split:
            qrels = read_qrels(Path(texts.test.qrels))
            test = replace(test, queries=[q for q in test.queries if q.query_id in qrels])
        began = process_time()
        if method:
            judged = texts.training[0]
            if method in (SENTENCES, PHRASES, PAIR, *SHARES):
                texts = known_items(index, Path(working), seed)
            if method == TITLES:
                texts = titles(index, test.documents, Path(working) / TITLES, seed)
            if method == PHRASES:
                shorten(Path(texts.training[0].queries))
            soft = SOFT.get(method, {})
            if method == RERANKED:
                folder = work.with_name("reranking") / f"{RERANKER_OF.get(target, target)}, {seed}"
                soft = soft | {"ranking_teacher": str(folder / "reranker")}
            adaptation = Adaptation(
                encoder, DEFAULT_ENCODER, progress=Stages(), seed=seed, settings=soft
            )
            encoder = adaptation.train(index, texts, Path(working))
            if method == PAIR or method in SHARES:
                settings = {"seed": seed, "embedding_cache": work / "frozen", **SETTINGS}
                settings |= OF_STUDENT.get(student, {}) | SHARES.get(method, {})
                work = Path(working)
                encoder, documents = trained(encoder, data / target, judged, settings, work)
            seconds = process_time() - began

        def values(name: str, found: Collection) -> dict[str, Any]:
            searched = hybrid.index_of(work / name, found, documents)
            return values_of(encoder, searched, found, words=system == WORDS)

        guards: Figures = {}
        for name in GUARDS:
            of_modes = values(name, read[name]())
            guards[name] = {mode: fmean(each.values()) for mode, each in of_modes.items()}
        return {"seconds": seconds, "values": values(target, test), "guards": guards}


def titles(index: Path, documents: Sequence[Document], folder: Path, seed: int) -> AdaptationTexts:
    """Four fifths of the titles, each as a query for the documents that have it."""
    named: dict[str, dict[str, int]] = {}
    for document in documents:
        if document.title:
            named.setdefault(document.title, {})[document.document_id] = 1
    queries = [Query(f"{number}", title) for number, title in enumerate(named)]
    qrels = {query.query_id: named[query.text] for query in queries}
    found = judged_queries(index, Judgements(queries, qrels, ""), folder, seed)
    return replace(found, training=found.training[:1])


def shorten(sentences: Path) -> None:
    """Make every second sentence of a file the key phrase of its rarest words, in their order."""
    rows = [json.loads(line) for line in sentences.read_text("utf-8").splitlines()]
    counts = Counter(chain.from_iterable({*row["text"].casefold().split()} for row in rows))
    for row in rows[::2]:
        words = row["text"].split()
        places = sorted(range(len(words)), key=lambda place: counts[words[place].casefold()])
        row["text"] = " ".join(words[place] for place in sorted(places[:PHRASE_WORDS]))
    sentences.write_text("\n".join(map(json.dumps, rows)), "utf-8")


def trained(
    encoder: Path, corpus: Path, judged: Judged, settings: Mapping[str, Any], working: Path
) -> tuple[Path, Path]:
    """The encoders of queries and of documents, trained by the recipe for one's own corpus."""
    files = {"corpus": f"{corpus}", "queries": judged.queries, "qrels": judged.qrels}
    source = ", ".join(f"{name} = {file!r}" for name, file in files.items())
    given = {"data": f"[{{{source}}}]", "query_encoder.model": encoder, **settings}
    recipe = read_recipe(RECIPE, [f"{name}={value}" for name, value in given.items()])
    train(recipe, working / "run", progress=Stages())
    queries, documents = (working / tower for tower in TOWERS)
    for tower in (queries, documents):
        export_encoder(working / "run" / tower.name, tower, precisions=["int8"])
    return queries, documents


def values_of(encoder: Path, index: Path, found: Collection, *, words: bool) -> dict[str, Any]:
    """The nDCG@10 of each query, by what is searched with."""
    modes = {"alone": "lexical"} if words else {"alone": "dense", "with BM25": "hybrid"}
    values = partial(hybrid.values_of, index, encoder, found, "nDCG@10")
    return {name: values(mode=mode) for name, mode in modes.items()}


def row_of(runs: Sequence[Figures], before: Figures) -> Figures:
    """Means of the seeds, and a test of the mean of each query against the encoder before."""
    seconds = fmean(each["seconds"] for each in runs)
    row: Figures = {"seeds": len(runs), "seconds": seconds, "kept": {}}
    for mode, start in before["values"].items():
        means = [fmean(each["values"][mode].values()) for each in runs]
        by_query = {query: fmean(each["values"][mode][query] for each in runs) for query in start}
        row[mode] = {
            "mean": fmean(means),
            "half": (max(means) - min(means)) / 2,
            "p": paired_t_test(by_query, start).p_value,
            "queries": len(start),
        }
        row["kept"][mode] = {
            name: fmean(each["guards"][name][mode] for each in runs) / guard[mode]
            for name, guard in before["guards"].items()
        }
    return row


if __name__ == "__main__":
    main()
