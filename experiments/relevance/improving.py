"""One turn of the loop: what is learnt from, what is published, and what later queries find."""

import shutil
from argparse import Namespace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import swiftlet
from experiments.relevance.people import ENCODER, SETTINGS, People
from export.encoder_directory import export_encoder
from measuring.experiment import Stages
from measuring.results import Figures
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.evaluation.experiment import JudgedSet
from swiftlet.evaluation.significance import SIGNIFICANT
from swiftlet.evaluation.weight import FEWEST_QUERIES, tune_weight
from training.adaptation.adaptation import Adaptation
from training.adaptation.improve import improve
from training.data.judged_split import FEWEST_JUDGED

DOCUMENTS, JUDGEMENTS = "documents", "judgements"


def figures_of(options: Namespace, name: str, kind: str, count: int, seed: int) -> Figures:
    """The nDCG@10 of later queries: today, with an adapted encoder, and with what is published.

    :param kind: "documents" alone, "judgements", or the users who click.
    """
    people, draw = People.of(options, name), Random(seed)
    row: Figures = {"collection": name, "kind": kind, "count": count, "seed": seed}
    row["today"] = row["published"] = row["encoder"] = people.quality(ENCODER)
    adapted = options.work / "adapted" / f"{name}, {seed}"
    if kind in SETTINGS["users"]:
        preferred = adapted.is_dir() and people.preferred(adapted, kind, count, draw)
        return row | by_encoder(people, adapted, published=preferred == adapted)
    with TemporaryDirectory(dir=options.work) as given:
        folder, log = Path(given), Path(given, "log")
        people.write_log(log, draw)
        if kind == DOCUMENTS:
            return row | by_documents(people, log, folder, adapted, seed)
        judged = people.judge(log, count, folder / JUDGEMENTS)
        row["queries"] = len(judged.queries)
        if len(judged.queries) < FEWEST_JUDGED:
            return row | by_few(people, judged, adapted)
        return row | by_judgements(people, log, folder, seed)


def by_encoder(people: People, adapted: Path, *, published: bool) -> Figures:
    """The figures of an adapted encoder, if there is one."""
    if not adapted.is_dir():
        return {}
    quality = people.quality(adapted)
    return {"encoder": quality} | ({"published": quality} if published else {})


def by_documents(people: People, log: Path, folder: Path, adapted: Path, seed: int) -> Figures:
    """Without a judgement: the encoder is kept if held-out sentences of documents show a gain."""
    searches = sorted(log.glob("searches-*"))
    adaptation = Adaptation(
        ENCODER, DEFAULT_ENCODER, export_encoder, queries=searches, progress=Stages(), seed=seed
    )
    encoder, found = adaptation.adapt(people.index, folder)
    is_better = found["ndcg@10"]["after"] > found["ndcg@10"]["before"] and found["p"] <= SIGNIFICANT
    if is_better:
        shutil.copytree(encoder, adapted, dirs_exist_ok=True)
    return by_encoder(people, encoder, published=is_better)


def by_few(people: People, judged: JudgedSet, adapted: Path) -> Figures:
    """With too few judged queries for an encoder: the one of the documents, and a weight."""
    encoder = adapted if adapted.is_dir() else ENCODER
    row = by_encoder(people, encoder, published=True)
    if len(judged.queries) >= FEWEST_QUERIES:
        with swiftlet.open(people.index, encoder=encoder) as searcher:
            tuned = tune_weight(searcher, judged)
        if tuned.is_better:
            quality = people.quality(encoder, weight=tuned.weight)
            row |= {"published": quality, "weight": tuned.weight}
    return row


def by_judgements(people: People, log: Path, folder: Path, seed: int) -> Figures:
    """What `swiftlet improve` finds and publishes."""
    out = folder / "better"
    found = improve(
        people.index, folder / JUDGEMENTS, out, export_encoder, log=log, encoder=ENCODER,
        students=[ENCODER], settings=[f"seed={seed}"], allow_unknown=False, progress=Stages(),
    )  # fmt: skip
    row: Figures = {}
    for each in found.candidates:
        if each.encoder:
            row |= by_encoder(people, out / each.name, published=each is found.best)
        elif each is found.best:
            row["weight"] = float(each.name.removeprefix("weight "))
            row["published"] = people.quality(ENCODER, weight=row["weight"])
    return row | {"tests": {each.name: each.test.difference for each in found.candidates}}
