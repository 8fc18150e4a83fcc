"""Encoders that are adapted to a collection, with judged queries and without, in its domain.

    python -m experiments.adapt --data DATA

The re-rankers of experiments/reranking.py are used. Takes nine hours on 2 cores, one for each of
two runs at a time.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from experiments.indexes import collections, folder_of, index_of, values_of
from export.encoder_directory import export_encoder
from export.quality import Collection
from measuring.experiment import Experiment, Found, Run, Stages, name_of, settings_beside
from measuring.results import ROOT, Figures, by_query, means, over_seeds
from swiftlet.corpora.trec import read_qrels
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.evaluation.experiment import JudgedSet
from swiftlet.evaluation.significance import paired_t_test
from training.adaptation.adaptation import Adaptation
from training.adaptation.texts import judged_queries, known_items
from training.distillation.settings import Judged
from training.model.trained import TOWERS
from training.recipes.settings import read_recipe
from training.train import train

SETTINGS = settings_beside(__file__)
TARGETS, METHODS, SHARES = SETTINGS["targets"], SETTINGS["methods"], SETTINGS["shares"]
GUARDS: list[str] = SETTINGS["guards"]
WORDS = "BM25"
STUDENTS = {"two layers": DEFAULT_QUERY_ENCODER, "look-up": LOOKUP_QUERY_ENCODER}
START = {WORDS: DEFAULT_ENCODER, "document encoder": DEFAULT_ENCODER, **STUDENTS}
SYSTEMS = [f"{student}, {each}" for student, methods in METHODS.items() for each in methods]
RECIPE = ROOT / "training" / "recipes" / "own-corpus.toml"
EXPERIMENT = Experiment(
    "adapt", __doc__, [*TARGETS, *GUARDS], ["torch", "onnxruntime", "faiss-cpu"], seeds=3, jobs=2
)


def runs(options: Namespace) -> list[list[Run]]:
    for name in (*TARGETS, *GUARDS):  # here, since runs share them
        index_of(folder_of(options, name), collections(options.data)[name]())
    found = [(target, system, 0) for target in TARGETS for system in START]
    for seed, target, system in product(range(options.seeds), TARGETS, SYSTEMS):
        if system.partition(", ")[2] not in SHARES or (target == SETTINGS["few_on"] and not seed):
            found.append((target, system, seed))
    return [found]


def figures_of(options: Namespace, target: str, system: str, seed: int) -> Figures:
    """The processor seconds of the training, nDCG@10 by query, and its mean on the guards."""
    read, corpus = collections(options.data), options.data / target
    learnt, test = Collection.read(corpus, TARGETS[target]), read[target]()
    index = index_of(folder_of(options, target), test)
    student, _, method = system.partition(", ")
    encoder, documents, seconds = START[student], DEFAULT_ENCODER, 0.0
    with TemporaryDirectory() as working:
        folder, judgements = Path(working), JudgedSet(learnt.queries, learnt.qrels, "")
        texts = judged_queries(index, judgements, folder, seed)
        if test.split == learnt.split:
            qrels = read_qrels(Path(texts.test.qrels))
            test = replace(test, queries=[q for q in test.queries if q.query_id in qrels])
        began = process_time()
        if method:
            judged, soft = texts.training[0], dict(SETTINGS["soft"].get(method, {}))
            if method != "judged queries" and not soft:
                texts = known_items(index, folder, seed)
            if method == "soft targets of a cross-encoder":
                run = name_of((SETTINGS["reranker_of"].get(target, target), seed))
                soft["ranking_teacher"] = f"{options.work.with_name('reranking') / run}/reranker"
            settings: dict[str, Any] = {"progress": Stages(), "seed": seed}
            settings["settings"] = SETTINGS["distillation"] | soft
            encoder = Adaptation(encoder, DEFAULT_ENCODER, export_encoder, **settings).train(
                index, texts, folder
            )
            if method.startswith("both encoders"):
                given = {"seed": seed, "embedding_cache": options.work / "frozen"}
                given |= SETTINGS["settings"] | SETTINGS["of_student"].get(student, {})
                given |= SHARES.get(method, {})
                encoder, documents = trained(encoder, corpus, judged, given, folder)
            seconds = process_time() - began

        def values(name: str, found: Collection) -> dict[str, Any]:
            place = folder_of(options) if documents == DEFAULT_ENCODER else folder
            of = partial(values_of, index_of(place / name, found, documents), encoder, found)
            if system == WORDS:
                return {"alone": of(mode="lexical")}
            return {"alone": of(mode="dense"), "with BM25": of(mode="hybrid")}

        guards = {name: means(values(name, read[name]())) for name in GUARDS}
        return {"seconds": seconds, "values": values(target, test), "guards": guards}


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


def collected(_options: Namespace, found: Found) -> Figures:
    rows: dict[str, Figures] = {target: {} for target in TARGETS}
    for target, system, _ in found:
        of_seeds = [each for named, each in found.items() if named[:2] == (target, system)]
        before = found[target, system.partition(", ")[0], 0]
        rows[target][system] = row_of(of_seeds, before)
    pages = {name: SETTINGS[name] for name in ("methods", "settings", "of_student", "guards")}
    return {"rows": rows, **pages}


def row_of(runs: Sequence[Figures], before: Figures) -> Figures:
    """Means of the seeds, and a test of the mean of each query against the encoder before."""
    seconds = fmean(each["seconds"] for each in runs)
    row: Figures = {"seeds": len(runs), "seconds": seconds, "kept": {}}
    for mode, start in before["values"].items():
        of_mode = [each["values"][mode] for each in runs]
        row[mode] = {
            **over_seeds([fmean(each.values()) for each in of_mode]),
            "p": paired_t_test(by_query(of_mode), start).p_value,
            "queries": len(start),
        }
        row["kept"][mode] = {
            name: fmean(each["guards"][name][mode] for each in runs) / guard[mode]
            for name, guard in before["guards"].items()
        }
    return row


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected)
