"""Measures an index or a service by judged queries."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from swiftlet.arguments import StrPath, one_of, path_of, whole_number
from swiftlet.corpora.rows import QrelsSource, Queries, qrels_of, queries_of
from swiftlet.corpora.trec import read_run, write_run
from swiftlet.encoders.encoder import Precision
from swiftlet.encoders.opening import EncoderSpec
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.evaluation.experiment import JudgedSet, match_judgements, run_queries
from swiftlet.evaluation.metrics import DEFAULT_METRICS, Metric
from swiftlet.evaluation.report import Report, make_report
from swiftlet.evaluation.retrievers import Retriever, SearcherRetriever
from swiftlet.evaluation.significance import TESTS, TestName
from swiftlet.extras import extra
from swiftlet.progress import Progress, Silence
from swiftlet.search.client import Client
from swiftlet.search.opening import open_searcher
from swiftlet.search.request import SearchRequest, check_rerank
from swiftlet.search.searcher import Searcher
from swiftlet.types import Qrels, Query, Run

_FEWEST_DOCUMENTS = 100


def evaluate(
    target: StrPath | Searcher,
    queries: Queries,
    qrels: QrelsSource,
    *,
    encoder: EncoderSpec | None = None,
    precision: Precision | None = None,
    reranker: StrPath | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    relevant_from: int = 1,
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
    :param relevant_from: The lowest grade of a relevant document; nDCG takes all grades.
    :param top_k: Documents for each query; None takes as many as the metrics need, at least 100.
    :param run_out: The path of a TREC run to write.
    :param against: The path of a TREC run; differences from it are tested for significance.
    :param test: How they are tested: by Student's t ("t") or by "wilcoxon".
    :param length_bins: Divide the queries by the mean length of their relevant documents: the most
        tokens of each bin, ascending, such as [100, 200, 400]. This needs an index.
    :param allow_unknown: Accept qrels that name unknown queries or documents.
    :param progress: Shows the progress, such as `ProgressLine()`; None shows nothing.
    :param fields: Further fields of each search, as `SearchRequest` has them: `mode`, `rerank`, ….
    :raises RetrievalError: When an argument, the queries, the qrels or the target is bad.
    :raises MissingExtraError: When the extra `evaluation`, for `against`, is not installed.
    """
    progress = progress or Silence()
    if not isinstance(target, str | os.PathLike | Searcher):
        raise InvalidArgumentError(
            f"target is {shown(target)}, but a path, a Searcher or the URL of a service is expected"
        )
    parsed = _parsed(metrics)
    whole_number("relevant_from", relevant_from, least=1)
    in_tokens = [metric for metric in parsed if metric.tokens]
    bins = [whole_number("length_bins", bound, least=1) for bound in length_bins]
    if bins != sorted(set(bins)):
        raise InvalidArgumentError(f"length_bins are {bins}, but must ascend")
    depth = _depth(parsed, top_k)
    if _is_url(target) and (in_tokens or bins):
        raise InvalidArgumentError(
            f"{in_tokens[0] if in_tokens else 'length_bins'} needs the lengths of documents in "
            "tokens, which a service does not tell: name the index directory"
        )
    one_of("test", test, [*TESTS])
    request = SearchRequest("any", top_k=depth, include_text=False, **fields)
    check_rerank(request.rerank, reranker)
    if run_out is not None:
        _check_run_file(path_of("run_out", run_out))
    baseline = None if against is None else read_run(path_of("against", against))
    if baseline is not None:
        with extra("evaluation"):  # a missing package shows before any search
            import scipy.stats  # noqa: F401
    given = JudgedBy.of(queries, qrels)
    with _retriever(target, encoder, precision, fields, reranker) as retriever:
        judged = given.matched(retriever, progress, allow_unknown=allow_unknown)
        progress.begin("Searching", len(judged.queries))
        run = run_queries(retriever, judged.queries, top_k=depth, progress=progress)
        if run_out is not None:
            write_run(Path(run_out), run, "swiftlet")
        lengths = None if _is_url(target) else cache(retriever.num_tokens)
        if lengths is not None:
            _check_tokens(run, depth, in_tokens, lengths)
        return make_report(
            run,
            judged.qrels,
            metrics=metrics,
            relevant_from=relevant_from,
            baseline=baseline,
            name="searcher" if isinstance(target, Searcher) else str(target),
            baseline_name="" if against is None else str(against),
            test=test,
            num_tokens=lengths,
            length_bins=bins,
        )


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """Queries and qrels as they were read, before their documents are looked up."""

    queries: Sequence[Query]
    qrels: Qrels
    path: Path

    @classmethod
    def of(cls, queries: Queries, qrels: QrelsSource) -> "JudgedBy":
        """Read queries and qrels.

        :raises RetrievalError: When they are bad.
        """
        path = Path(qrels) if isinstance(qrels, str | os.PathLike) else Path("the qrels")
        return cls(queries_of(queries), qrels_of(qrels), path)

    def matched(
        self, retriever: Retriever, progress: Progress, *, allow_unknown: bool
    ) -> JudgedSet:
        """The judged queries, after their documents were looked up.

        :raises CollectionError: When a document is unknown, unless `allow_unknown`.
        """
        return match_judgements(
            self.queries,
            self.qrels,
            retriever.holds,
            qrels_path=self.path,
            allow_unknown=allow_unknown,
            progress=progress,
        )


def _parsed(metrics: object) -> list[Metric]:
    if isinstance(metrics, str) or not isinstance(metrics, Sequence):
        raise InvalidArgumentError(
            f"metrics is {shown(metrics)}, but a list such as ['nDCG@10'] is expected"
        )
    return [Metric.parse(each) for each in metrics]


def _depth(metrics: Sequence[Metric], top_k: int | None) -> int:
    """The documents that are searched for each query."""
    deepest = max(metrics, key=lambda metric: metric.cutoff or 1, default=None)
    most = (deepest and deepest.cutoff) or 1
    if top_k is None:
        return max(_FEWEST_DOCUMENTS, most)
    if most > (top_k := whole_number("top_k", top_k, least=1)):
        raise InvalidArgumentError(
            f"{deepest} needs {most} documents a query, but top_k is {top_k}"
        )
    return top_k


def _check_tokens(
    run: Run, depth: int, in_tokens: Sequence[Metric], num_tokens: Callable[[str], int]
) -> None:
    """Check that each query has documents of as many tokens as a cutoff, or all there are."""
    for metric, (query_id, found) in product(in_tokens, run.items()):
        full = len(found) == depth
        if full and (have := sum(map(num_tokens, found))) < (metric.tokens or 0):
            raise InvalidArgumentError(
                f"{metric} needs more documents than top_k={depth}: the documents of the query "
                f"{shown(query_id)} have {have:,} tokens; raise top_k"
            )


def _check_run_file(path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise InvalidArgumentError(f"{path.parent} is not a directory to write the run to")
    if path.is_dir():
        raise InvalidArgumentError(f"{path} is a directory; a file to write the run to is needed")


@contextmanager
def _retriever(
    target: StrPath | Searcher,
    encoder: EncoderSpec | None,
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
