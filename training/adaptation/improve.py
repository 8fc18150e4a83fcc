"""Tries another weight and adapted query encoders on judged queries that were held out."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from swiftlet import disk, encoders
from swiftlet.encoders.opening import directory_of
from swiftlet.errors import CollectionError, InvalidArgumentError, RetrievalError
from swiftlet.evaluation.evaluate import JudgedBy
from swiftlet.evaluation.experiment import JudgedSet, run_queries
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.retrievers import Retriever, SearcherRetriever
from swiftlet.evaluation.significance import holm, paired_t_test
from swiftlet.evaluation.weight import FEWEST_QUERIES, tune_weight, weights_to_try
from swiftlet.index.query_encoder import query_encoder_of
from swiftlet.manifest import read_manifest
from swiftlet.publication import check_target, clear, discard, locked_working_directory, publish
from swiftlet.relevance import pool
from swiftlet.relevance.agreement import sum_up
from swiftlet.relevance.judgements import QRELS
from swiftlet.relevance.sampling import queries_of_log
from swiftlet.search.opening import open_searcher
from swiftlet.search.searcher import Searcher
from training.adaptation.adaptation import ADAPTED, AGAIN, Adaptation, Export
from training.adaptation.improvement import REPORT, Candidate, Improvement
from training.adaptation.index import (
    check_outside,
    document_encoder_for,
    held_out,
    parsed_settings,
    usable,
)
from training.adaptation.texts import AdaptationTexts, judged_queries, known_items
from training.data.query_groups import normalised_query
from training.distillation.overlap import NDCG
from training.distillation.settings import Judged
from training.loop.checkpoints import CHECKPOINT
from training.loop.log import TrainingProgress

_TOP = 10
_MOST_LOGGED = 10_000
_WITH_FEWER = f"from {FEWEST_QUERIES} on, swiftlet tune finds a weight"


def improve(
    index: Path,
    judgements: Path,
    out: Path,
    export: Export,
    *,
    log: Path | None,
    encoder: Path | None,
    students: Sequence[Path],
    settings: Sequence[str],
    allow_unknown: bool,
    progress: TrainingProgress,
) -> Improvement:
    """Write into `out` the adapted encoders and a report on them, and on another weight.

    All of them learn from four fifths of the judged queries, and are compared on the last fifth. An
    interrupted run goes on with the same call.

    :param judgements: A folder of `swiftlet judge`, or a collection with queries.jsonl and
        qrels/test.tsv.
    :param log: A folder of searches, whose queries the adapted encoders read, too.
    :param encoder: The query encoder of searches today; None stands for the index's own.
    :param students: The encoders to adapt; none stands for today's, and those that ship for the
        index.
    :raises RetrievalError: When an argument, the index or an encoder is bad, or there is too little
        to learn from.
    """
    check_outside(index, out)
    check_target(out, overwrite=False)
    manifest = read_manifest(index, "index")
    teacher = document_encoder_for(index, manifest, None)
    today = directory_of(query_encoder_of(index)) if encoder is None else encoders.find(encoder)
    judged, given = _evidence(judgements), parsed_settings(settings)
    starts = [*map(encoders.find, students)] or [*_starts(today, manifest.embedding_space)]
    with open_searcher(index, encoder=today) as searcher, locked_working_directory(out) as working:
        try:
            retriever = SearcherRetriever(searcher)
            found = usable(judged, retriever, allow_unknown, progress)
            texts, sentences = _texts(index, found, working)
            test = held_out(texts.test, retriever, progress)
            logged = [] if log is None else [_logged(log, searcher, test, working)]
            adaptations = dict[str, Adaptation]()
            for start in starts:
                each = Adaptation(
                    start, teacher, export, queries=logged, progress=progress, settings=given
                )
                if each.adapted_name in adaptations:
                    raise InvalidArgumentError(f"two encoders are {each.adapted_name}: name one")
                adaptations[each.adapted_name] = each
            weights = [*_other_weights(searcher, found, test, progress)]
            places = {
                name: adaptation.train(index, texts, working / name)
                for name, adaptation in adaptations.items()
            }
            guard = None if sentences is None else held_out(sentences, retriever, progress)
            compared = _compared(index, searcher, weights, places, test, guard)
            improvement = Improvement(
                index=index,
                judgements=judgements,
                out=out,
                encoder=encoder,
                mode=searcher.modes[0],
                weight=searcher.weight,
                num_learnt=len(found.queries) - len(test.queries),
                unjudged=_asked(retriever, test)[1],
                candidates=compared,
            )
            _publish(improvement, places, working)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(AGAIN) from None
        except RetrievalError:
            if not any(working.glob(f"*/run-*/{CHECKPOINT}")):
                discard(working)
            raise
        discard(working)
    return improvement


def _evidence(folder: Path) -> JudgedBy:
    """The judged queries of a folder.

    :raises CollectionError: When people have judged too little, or disagree.
    """
    if (folder / pool.FILE).is_file():
        verdict = sum_up(folder, pool.read_pool(folder))
        if verdict.objections:
            raise CollectionError(folder, f"no evidence: {'; '.join(verdict.objections)}")
    return JudgedBy.of(folder, folder / QRELS)


def _starts(today: Path, space: str) -> Iterator[Path]:
    """Today's encoder, and those that ship for the space of the index."""
    yield today
    known = f"{read_manifest(today, 'encoder').details['name']}".removesuffix(ADAPTED)
    for each in (encoders.DEFAULT_QUERY_ENCODER, encoders.LOOKUP_QUERY_ENCODER):
        manifest = read_manifest(each, "encoder")
        if manifest.embedding_space == space and manifest.details["name"] != known:
            yield each


def _texts(
    index: Path, judgements: JudgedSet, working: Path
) -> tuple[AdaptationTexts, Judged | None]:
    """What is learnt from and tested on, and sentences that nothing learns, if there are enough."""
    texts = judged_queries(index, judgements, working, _WITH_FEWER)
    with suppress(InvalidArgumentError):  # the corpus has too few sentences
        known = known_items(index, working / "known")
        return replace(texts, training=(texts.training[0], *known.training)), known.test
    return texts, None


def _logged(log: Path, searcher: Searcher, test: JudgedSet, working: Path) -> Path:
    """A file of the queries of a log, the frequent ones first, without those held out."""
    unseen = {normalised_query(each.text) for each in test.queries}
    texts = [
        " ".join(text.split())
        for text in queries_of_log(log, searcher, _MOST_LOGGED, "frequency")
        if normalised_query(text) not in unseen
    ]
    if not texts:
        raise CollectionError(log, "each of its queries is held out: leave out --log")
    content = "\n".join(texts).encode()
    path = working / f"log-{hashlib.sha256(content).hexdigest()[:12]}.txt"
    disk.write(path, content.decode())
    return path


def _other_weights(
    searcher: Searcher, judgements: JudgedSet, test: JudgedSet, progress: TrainingProgress
) -> Iterator[float]:
    """The weight that the queries to learn from choose, if it is another one."""
    if "hybrid" not in searcher.modes:
        return
    unseen = {each.query_id for each in test.queries}
    learnt = [each for each in judgements.queries if each.query_id not in unseen]
    progress.begin("Weighing", len(weights_to_try(searcher.weight)) * len(learnt))
    tuned = tune_weight(searcher, JudgedSet(learnt, judgements.qrels, ""), progress)
    if tuned.is_better and tuned.weight != searcher.weight:
        yield tuned.weight


def _asked(retriever: Retriever, judged: JudgedSet) -> tuple[dict[str, float], float]:
    """The nDCG@10 of each query, and the share of the ten best documents without a judgement."""
    run = run_queries(retriever, judged.queries, top_k=_TOP)
    unjudged = [d not in judged.qrels[query_id] for query_id in run for d in run[query_id]]
    return evaluate_per_query(run, judged.qrels, [NDCG])[NDCG], fmean(unjudged or [0.0])


def _compared(
    index: Path,
    searcher: Searcher,
    weights: Sequence[float],
    places: dict[str, Path],
    test: JudgedSet,
    guard: JudgedSet | None,
) -> list[Candidate]:
    before, _ = _asked(SearcherRetriever(searcher), test)
    asked = {
        f"weight {weight:g}": _asked(SearcherRetriever(searcher, weight=weight), test)
        for weight in weights
    }
    kept = {}
    sentences = guard and _mean(searcher, guard)
    for name, place in places.items():
        with open_searcher(index, encoder=place) as adapted:
            asked[name] = _asked(SearcherRetriever(adapted), test)
            if guard and sentences:
                kept[name] = _mean(adapted, guard) / sentences
    tests = {name: paired_t_test(values, before) for name, (values, _) in asked.items()}
    corrected = holm([each.p_value for each in tests.values()])
    return [
        Candidate(
            name=name,
            encoder=name in places,
            test=each,
            p_value=p_value,
            unjudged=asked[name][1],
            kept=kept.get(name),
        )
        for (name, each), p_value in zip(tests.items(), corrected, strict=True)
    ]


def _mean(searcher: Searcher, judged: JudgedSet) -> float:
    """The mean nDCG@10 by meaning: the words of a sentence find its document in any case."""
    values, _ = _asked(SearcherRetriever(searcher, mode="dense"), judged)
    return fmean(values.values())


def _publish(improvement: Improvement, places: dict[str, Path], working: Path) -> None:
    artefact = working / "artefact"
    with disk.storage_errors(improvement.out):
        disk.make_directory(artefact, exist_ok=True)
        clear(artefact)
        for name, place in places.items():
            disk.copy_tree(place, artefact / name)
        disk.write(artefact / REPORT, improvement.page())
        publish(artefact, improvement.out)
