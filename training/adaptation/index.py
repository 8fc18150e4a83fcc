"""Writes an encoder that is adapted to an index, and tests it."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swiftlet import encoders
from swiftlet.encoders.opening import directory_of
from swiftlet.errors import CollectionError, InvalidArgumentError, RetrievalError
from swiftlet.evaluation.evaluate import JudgedBy
from swiftlet.evaluation.experiment import JudgedSet
from swiftlet.evaluation.retrievers import Retriever, SearcherRetriever
from swiftlet.evaluation.significance import PairedTest
from swiftlet.index.changes.log import Changes
from swiftlet.index.document_encoder import document_encoder_of, load_document_encoder
from swiftlet.index.query_encoder import query_encoder_of
from swiftlet.manifest import Manifest, change_details, read_manifest
from swiftlet.publication import check_target, discard, locked_working_directory, publish
from swiftlet.search.opening import open_searcher
from training.adaptation.adaptation import AGAIN, Adaptation, Export, compare
from training.adaptation.texts import judged_queries, known_items
from training.distillation.settings import Distillation, Judged
from training.loop.checkpoints import CHECKPOINT
from training.loop.log import TrainingProgress
from training.recipes.overrides import apply_override

_DECIDED = {
    "teacher", "student", "layers", "pooling", "project", "max_tokens", "trust_remote_code",
    "queries", "corpora", "sentences", "index", "judged", "patience", "pairs", "projection_only",
}  # fmt: skip
_HIGHEST_RATE = 1
_WITHOUT_QRELS = "without qrels, the sentences of the index are enough"


def adapt_to_index(
    index: Path,
    out: Path,
    export: Export,
    *,
    queries: Sequence[Path],
    qrels: Path | None,
    student: Path | None,
    document_encoder: Path | None,
    settings: Sequence[str],
    allow_unknown: bool,
    overwrite: bool,
    progress: TrainingProgress,
) -> dict[str, PairedTest]:
    """Write an encoder that is adapted to `index`, and test it against the one of searches today.

    :returns: By mode of search, the default first, the test of the adapted encoder's nDCG@10.
    :raises RetrievalError: When an argument, the index, an encoder or the storage is bad, or there
        is too little to learn from.
    """
    manifest = read_manifest(index, "index")
    check_outside(index, out)
    check_target(out, overwrite=overwrite, kind="encoder")
    document_encoder = document_encoder_for(index, manifest, document_encoder)
    today = directory_of(query_encoder_of(index))
    start = today if student is None else encoders.find(student)
    if read_manifest(today, "encoder").embedding_space != manifest.embedding_space:
        today = start
    adaptation = Adaptation(
        start,
        document_encoder,
        export,
        queries=[] if qrels else queries,
        progress=progress,
        settings=parsed_settings(settings),
    )
    with locked_working_directory(out) as working:
        try:
            with open_searcher(index, encoder=today) as searcher:
                retriever = SearcherRetriever(searcher)
                if qrels is None:
                    texts = known_items(index, working)
                else:
                    judged = JudgedBy.of(queries[0], qrels)
                    judgements = usable(judged, retriever, allow_unknown, progress)
                    texts = judged_queries(index, judgements, working, _WITHOUT_QRELS)
                encoder = adaptation.train(index, texts, working)
                judgements = held_out(texts.test, retriever, progress)
                with open_searcher(index, encoder=encoder) as adapted:
                    # The words of a sentence find its document, whatever the encoder.
                    modes = ("dense",) if qrels is None else searcher.modes
                    tests: dict[str, PairedTest] = {
                        mode: compare(
                            SearcherRetriever(searcher, mode=mode),
                            SearcherRetriever(adapted, mode=mode),
                            judgements,
                        )
                        for mode in modes
                        if mode != "lexical"
                    }
            tested = {mode: asdict(test) for mode, test in tests.items()}
            change_details(encoder, {"adaptation": tested})
            publish(encoder, out)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(AGAIN) from None
        except RetrievalError:
            if not any(working.glob(f"run-*/{CHECKPOINT}")):
                discard(working)
            raise
        discard(working)
    return tests


def check_outside(index: Path, out: Path) -> None:
    """Refuse to write what an adaptation makes into an index.

    :raises InvalidArgumentError: When `out` is the index or in it.
    """
    if index.resolve() in {out.resolve(), *out.resolve().parents}:
        raise InvalidArgumentError(f"{out} is the index or in it: choose a place outside")


def document_encoder_for(index: Path, manifest: Manifest, document_encoder: Path | None) -> Path:
    """The document encoder that students of an index imitate.

    :raises RetrievalError: When it is not the index's, or the index has changes that are not
        merged.
    """
    if document_encoder is None:
        document_encoder = directory_of(document_encoder_of(manifest.details))
    load_document_encoder(manifest.details, document_encoder)
    with closing(Changes(index, manifest)) as changes:
        if changes.count():
            raise InvalidArgumentError(
                f"{index} has changes that are not merged: run swiftlet compact {index} first"
            )
    return document_encoder


def parsed_settings(overrides: Sequence[str]) -> dict[str, Any]:
    """The settings of a distillation that options --set give.

    :raises InvalidArgumentError: When an adaptation decides one itself, or it is out of range.
    """
    given: dict[str, Any] = {}
    for override in overrides:
        apply_override(given, override)
    known = sorted(Distillation.model_fields.keys() - _DECIDED)
    if others := sorted(given.keys() - set(known)):
        raise InvalidArgumentError(f"--set {others[0]}: the settings are {', '.join(known)}")
    rate = given.get("learning_rate")
    if isinstance(rate, int | float) and rate > _HIGHEST_RATE:
        raise InvalidArgumentError(
            f"--set learning_rate is {rate:g}, but should be at most {_HIGHEST_RATE}: a higher "
            "rate undoes what the encoder has learnt"
        )
    return given


def usable(
    judged: JudgedBy, retriever: Retriever, allow_unknown: bool, progress: TrainingProgress
) -> JudgedSet:
    """The judged queries with a relevant document in the index, without unknown documents.

    :raises CollectionError: When there is none, or a document is unknown, unless `allow_unknown`.
    """
    found = judged.matched(retriever, progress, allow_unknown=allow_unknown)
    known = {
        query_id: {d: grade for d, grade in grades.items() if retriever.holds(d)}
        for query_id, grades in found.qrels.items()
    }
    chosen = [each for each in found.queries if max(known[each.query_id].values(), default=0) > 0]
    if not chosen:
        raise CollectionError(
            judged.path,
            "no query has a relevant document in the index: do the qrels name its documents?",
        )
    return JudgedSet(chosen, {each.query_id: known[each.query_id] for each in chosen}, "")


def held_out(test: Judged, retriever: Retriever, progress: TrainingProgress) -> JudgedSet:
    """The queries of a test that an adaptation wrote."""
    return usable(JudgedBy.of(Path(test.queries), Path(test.qrels)), retriever, False, progress)
