"""Measures an index or a service by judged queries."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from swiftlet.arguments import path_of, whole_number
from swiftlet.client import Client
from swiftlet.corpora.rows import Judgements, Queries, qrels_of, queries_of
from swiftlet.corpora.trec import read_run, write_run
from swiftlet.encoders.encoder import Precision
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.evaluation.experiment import Judgements as JudgedQueries
from swiftlet.evaluation.experiment import match_judgements, run_queries
from swiftlet.evaluation.metrics import DEFAULT_METRICS, Lengths, Metric, largest_cutoff, load_ranx
from swiftlet.evaluation.report import Report, make_report
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.evaluation.significance import TESTS, TestName
from swiftlet.evaluation.weight import TunedWeight, tune_weight, weights_to_try
from swiftlet.library.indexes import StrPath, open_searcher
from swiftlet.manifest import change_details, read_manifest
from swiftlet.progress import Progress, Silence
from swiftlet.publication import writer_lock
from swiftlet.search.request import DEFAULT_WEIGHT, SearchRequest, check_rerank
from swiftlet.search.searcher import Searcher
from swiftlet.types import Qrels, Query, Run

_FEWEST_DOCUMENTS = 100


def evaluate(
    target: StrPath | Searcher,
    queries: Queries,
    qrels: Judgements,
    *,
    encoder: StrPath | None = None,
    precision: Precision | None = None,
    reranker: StrPath | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    top_k: int | None = None,
    run_out: StrPath | None = None,
    against: StrPath | None = None,
    test: TestName = "t",
    length_bins: Sequence[int] = (),
    allow_unknown: bool = False,
    progress: Progress | None = None,
    **fields: Any,
) -> Report:
    """Measure an index or a running service by judged queries.

    :param target: An index directory, an open searcher, or the URL of a service.
    :param queries: A path, query_id -> text, or `Query` objects.
    :param qrels: A path, or query_id -> document_id -> grade.
    :param encoder: The query encoder for an index directory; None takes its own, or else the
        one that ships.
    :param precision: The encoder's model; None takes the encoder's default.
    :param reranker: The directory of a re-ranker, for an index directory.
    :param metrics: Such as nDCG@10, MRR@10, recall@100, Holes@10 or recall@400 tokens.
    :param top_k: Documents for each query; None takes as many as the metrics need, at least 100.
    :param run_out: The path of a TREC run to write.
    :param against: The path of a TREC run; differences from it are tested for significance.
    :param test: How they are tested: by Student's t ("t"), by "wilcoxon" or by "randomisation".
    :param length_bins: Divide the queries by the mean length of their relevant documents: the most
        tokens of each bin, ascending, such as [100, 200, 400]. This needs an index.
    :param allow_unknown: Accept qrels that name unknown queries or documents.
    :param progress: Shows the progress, such as `ProgressLine()`; None shows nothing.
    :param fields: Further fields of each search, as `SearchRequest` has them: `mode`, `rerank`, ….
    :raises RetrievalError: When an argument, the queries, the qrels or the target is bad.
    :raises MissingExtraError: When the extra `evaluation` is not installed.
    """
    load_ranx()  # first, so that a missing package shows before any search
    progress = progress or Silence()
    if isinstance(metrics, str) or not isinstance(metrics, Sequence):
        raise InvalidArgumentError(
            f"metrics is {shown(metrics)}, but a list such as ['nDCG@10'] is expected"
        )
    if not isinstance(target, str | os.PathLike | Searcher):
        raise InvalidArgumentError(
            f"target is {shown(target)}, but a path, a Searcher or the URL of a service is expected"
        )
    if test not in TESTS:
        raise InvalidArgumentError(
            f"test is {shown(test)}, but one of {', '.join(TESTS)} is expected"
        )
    bounds = [whole_number("length_bins", bound, least=1) for bound in length_bins]
    if bounds != sorted(set(bounds)):
        raise InvalidArgumentError(f"length_bins are {bounds}, but must ascend")
    in_tokens = [metric for each in metrics if (metric := Metric.parse(each)).tokens]
    if _is_url(target) and (bounds or in_tokens):
        what = str(in_tokens[0]) if in_tokens else "length_bins"
        raise InvalidArgumentError(
            f"{what} needs the lengths of documents in tokens, which a service does not tell: name "
            "the index directory"
        )
    if top_k is not None:
        top_k = whole_number("top_k", top_k, least=1)
    else:
        top_k = max(_FEWEST_DOCUMENTS, largest_cutoff(metrics))
    if largest_cutoff(metrics) > top_k:
        deepest = max(map(Metric.parse, metrics), key=lambda metric: metric.cutoff or 0)
        raise InvalidArgumentError(
            f"{deepest} needs {deepest.cutoff} documents a query, but top_k is {top_k}"
        )
    asked = SearchRequest("any", top_k=top_k, include_text=False, **fields)
    check_rerank(asked.rerank, reranker)
    if run_out is not None:
        _check_run_file(path_of("run_out", run_out))
    baseline = None if against is None else read_run(path_of("against", against))
    every_query, judged = queries_of(queries), qrels_of(qrels)
    with _retriever(target, encoder, precision, fields, reranker) as retriever:
        judgements = _match(
            every_query, judged, retriever, qrels, progress, allow_unknown=allow_unknown
        )
        progress.begin("Searching", len(judgements.queries))
        run = run_queries(
            retriever,
            judgements.queries,
            top_k=top_k,
            progress=lambda _, __: progress.advance(1),
        )
        if run_out is not None:
            write_run(Path(run_out), run, "swiftlet")
        num_tokens = None if _is_url(target) else cache(retriever.num_tokens)
        if num_tokens is not None:
            for metric in in_tokens:
                _check_depth(run, metric, top_k, num_tokens)
        progress.begin("Computing metrics (longer the first time, when ranx is compiled)", None)
        return make_report(
            run,
            judgements.qrels,
            metrics=metrics,
            baseline=baseline,
            name="searcher" if isinstance(target, Searcher) else str(target),
            baseline_name="" if against is None else str(against),
            test=test,
            num_tokens=num_tokens,
            length_bins=bounds,
        )


def _check_depth(run: Run, metric: Metric, top_k: int, num_tokens: Lengths) -> None:
    """Check that each query has documents of as many tokens as the cutoff, or all there are."""
    for query_id, found in run.items():
        if len(found) == top_k and (have := sum(map(num_tokens, found))) < (metric.tokens or 0):
            raise InvalidArgumentError(
                f"{metric} needs more documents than top_k={top_k}: those of the query "
                f"{shown(query_id)} have {have:,} tokens; raise top_k"
            )


def tune(
    index: StrPath,
    queries: Queries,
    qrels: Judgements,
    *,
    encoder: StrPath | None = None,
    precision: Precision | None = None,
    allow_unknown: bool = False,
    progress: Progress | None = None,
) -> TunedWeight:
    """Find the weight of hybrid searches by judged queries, and write it into the index.

    The weight stays as it was unless tuning gains on queries that it was not tuned on. The index is
    locked meanwhile, as by a writer.

    :param index: An index directory that was built with a language.
    :param queries: As in `evaluate`, like `qrels` and the rest.
    :raises RetrievalError: When an argument, the queries, the qrels or the index is bad.
    :raises ArtefactError: When another process is writing the index.
    :raises StorageError: When the index is on storage that cannot be written.
    :raises MissingExtraError: When the extra `evaluation` is not installed.
    """
    load_ranx()
    progress = progress or Silence()
    every_query, judged = queries_of(queries), qrels_of(qrels)
    with (
        _locked(index) as directory,
        open_searcher(directory, encoder=encoder, precision=precision) as searcher,
    ):
        judgements = _match(
            every_query,
            judged,
            SearcherRetriever(searcher),
            qrels,
            progress,
            allow_unknown=allow_unknown,
        )
        searches = len(weights_to_try(searcher.weight)) * len(judgements.queries)
        progress.begin("Searching", searches)
        tuned = tune_weight(searcher, judgements, lambda _, __: progress.advance(1))
        if tuned.is_better:
            change_details(directory, tuned.details())
    return tuned


def reset_weight(index: StrPath) -> float:
    """Undo `tune`: write the shipped weight into the index.

    :returns: That weight.
    :raises RetrievalError: When the index is bad; else as `tune`.
    """
    with _locked(index) as directory:
        if not read_manifest(directory).details.get("language"):
            raise InvalidArgumentError(f"{index} was built without words, so it has no weight")
        change_details(directory, {"weight": DEFAULT_WEIGHT, "weight_evidence": None})
    return DEFAULT_WEIGHT


@contextmanager
def _locked(index: StrPath) -> Iterator[Path]:
    """The directory of an index without links, while no other process writes it."""
    directory = path_of("index", index)
    read_manifest(directory, "index")  # refused before anything is made beside it
    directory = directory.resolve()
    with writer_lock(directory):
        yield directory


def _match(
    queries: Iterable[Query],
    judged: Qrels,
    retriever: SearcherRetriever,
    qrels: Judgements,
    progress: Progress,
    *,
    allow_unknown: bool = False,
) -> JudgedQueries:
    progress.begin("Looking up judged documents", None)
    found = match_judgements(
        queries,
        judged,
        retriever.holds,
        qrels_path=Path(qrels) if isinstance(qrels, str | os.PathLike) else Path("the qrels"),
        allow_unknown=allow_unknown,
        progress=lambda _, __: progress.advance(1),
    )
    if found.warning:
        progress.note(found.warning)
    return found


def _check_run_file(path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise InvalidArgumentError(f"{path.parent} is not a directory to write the run to")
    if path.is_dir():
        raise InvalidArgumentError(f"{path} is a directory; a file to write the run to is needed")


@contextmanager
def _retriever(
    target: StrPath | Searcher,
    encoder: StrPath | None,
    precision: Precision | None,
    fields: Mapping[str, Any],
    reranker: StrPath | None,
) -> Iterator[SearcherRetriever]:
    is_index = not isinstance(target, Searcher) and not _is_url(target)
    if not is_index and any(each is not None for each in (encoder, precision, reranker)):
        raise InvalidArgumentError(
            f"{target} has models of its own: an encoder, a precision and a re-ranker are for an "
            "index"
        )
    if isinstance(target, Searcher):
        yield SearcherRetriever(target, **fields)
    elif _is_url(target):
        with Client(str(target)) as client:
            client.info()  # a place that is no service is named before any search
            yield SearcherRetriever(client, **fields)
    else:
        with open_searcher(
            target, encoder=encoder, precision=precision, reranker=reranker
        ) as searcher:
            yield SearcherRetriever(searcher, **fields)


def _is_url(target: StrPath | Searcher) -> bool:
    return str(target).startswith(("http://", "https://"))
