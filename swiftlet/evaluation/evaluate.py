"""Measures an index or a service by judged queries."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from swiftlet.arguments import StrPath, one_of, path_of, whole_number
from swiftlet.client import Client
from swiftlet.corpora.rows import QrelsSource, Queries, qrels_of, queries_of
from swiftlet.corpora.trec import read_run, write_run
from swiftlet.encoders.encoder import Precision
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.evaluation.experiment import JudgedSet, match_judgements, run_queries
from swiftlet.evaluation.metrics import DEFAULT_METRICS, Metric, largest_cutoff, load_ranx
from swiftlet.evaluation.report import Report, make_report
from swiftlet.evaluation.retrievers import Retriever, SearcherRetriever
from swiftlet.evaluation.significance import TESTS, TestName
from swiftlet.progress import Progress, Silence
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
    progress = progress or Silence()
    if not isinstance(target, str | os.PathLike | Searcher):
        raise InvalidArgumentError(
            f"target is {shown(target)}, but a path, a Searcher or the URL of a service is expected"
        )
    asked = _Measurement.of(metrics, top_k, length_bins)
    if _is_url(target):
        asked.check_without_lengths()
    one_of("test", test, [*TESTS])
    request = SearchRequest("any", top_k=asked.top_k, include_text=False, **fields)
    check_rerank(request.rerank, reranker)
    if run_out is not None:
        _check_run_file(path_of("run_out", run_out))
    baseline = None if against is None else read_run(path_of("against", against))
    given = JudgedBy.of(queries, qrels)
    with _retriever(target, encoder, precision, fields, reranker) as retriever:
        load_ranx()  # so that a missing package shows before any search
        judged = given.matched(retriever, progress, allow_unknown=allow_unknown)
        run = asked.searched(retriever, judged, progress)
        if run_out is not None:
            write_run(Path(run_out), run, "swiftlet")
        lengths = None if _is_url(target) else cache(retriever.num_tokens)
        if lengths is not None:
            asked.check_depth(run, lengths)
        progress.begin("Computing metrics (longer the first time, when ranx is compiled)", None)
        return make_report(
            run,
            judged.qrels,
            metrics=metrics,
            baseline=baseline,
            name="searcher" if isinstance(target, Searcher) else str(target),
            baseline_name="" if against is None else str(against),
            test=test,
            num_tokens=lengths,
            length_bins=asked.length_bins,
        )


@dataclass(frozen=True, slots=True)
class _Measurement:
    """How deep the searches are, and what needs the lengths of documents in tokens."""

    top_k: int
    length_bins: list[int]
    in_tokens: list[Metric]

    @classmethod
    def of(cls, metrics: object, top_k: int | None, length_bins: Sequence[int]) -> "_Measurement":
        """The measurement of these metrics.

        :raises InvalidArgumentError: When a metric is unknown or needs more documents, or the bins
            do not ascend.
        """
        if isinstance(metrics, str) or not isinstance(metrics, Sequence):
            raise InvalidArgumentError(
                f"metrics is {shown(metrics)}, but a list such as ['nDCG@10'] is expected"
            )
        bounds = [whole_number("length_bins", bound, least=1) for bound in length_bins]
        if bounds != sorted(set(bounds)):
            raise InvalidArgumentError(f"length_bins are {bounds}, but must ascend")
        parsed = [Metric.parse(each) for each in metrics]
        most = largest_cutoff(metrics)
        if top_k is None:
            top_k = max(_FEWEST_DOCUMENTS, most)
        elif most > (top_k := whole_number("top_k", top_k, least=1)):
            deepest = max(parsed, key=lambda metric: metric.cutoff or 0)
            raise InvalidArgumentError(
                f"{deepest} needs {deepest.cutoff} documents a query, but top_k is {top_k}"
            )
        return cls(top_k, bounds, [metric for metric in parsed if metric.tokens])

    def check_without_lengths(self) -> None:
        """Check that no length of a document is needed, since a service does not tell them."""
        if self.in_tokens or self.length_bins:
            what = str(self.in_tokens[0]) if self.in_tokens else "length_bins"
            raise InvalidArgumentError(
                f"{what} needs the lengths of documents in tokens, which a service does not tell: "
                "name the index directory"
            )

    def searched(self, retriever: Retriever, judged: JudgedSet, progress: Progress) -> Run:
        """The documents that are found for each judged query."""
        progress.begin("Searching", len(judged.queries))
        return run_queries(
            retriever,
            judged.queries,
            top_k=self.top_k,
            progress=lambda _, __: progress.advance(1),
        )

    def check_depth(self, run: Run, num_tokens: Callable[[str], int]) -> None:
        """Check that each query has documents of as many tokens as a cutoff, or all there are."""
        for metric in self.in_tokens:
            for query_id, found in run.items():
                full = len(found) == self.top_k
                if full and (have := sum(map(num_tokens, found))) < (metric.tokens or 0):
                    raise InvalidArgumentError(
                        f"{metric} needs more documents than top_k={self.top_k}: the documents "
                        f"of the query {shown(query_id)} have {have:,} tokens; raise top_k"
                    )


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """Queries and qrels as they were read, before their documents are looked up."""

    queries: Sequence[Query]
    qrels: Qrels
    place: Path

    @classmethod
    def of(cls, queries: Queries, qrels: QrelsSource) -> "JudgedBy":
        """Read queries and qrels.

        :raises RetrievalError: When they are bad.
        """
        is_path = isinstance(qrels, str | os.PathLike)
        place = Path(qrels) if is_path else Path("the qrels")  # type: ignore[arg-type]
        return cls(queries_of(queries), qrels_of(qrels), place)

    def matched(
        self, retriever: Retriever, progress: Progress, *, allow_unknown: bool
    ) -> JudgedSet:
        """The judged queries, after their documents were looked up.

        :raises CollectionError: When a document is unknown, unless that is allowed.
        """
        progress.begin("Looking up judged documents", None)
        found = match_judgements(
            self.queries,
            self.qrels,
            retriever.holds,
            qrels_path=self.place,
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
