"""Runs the judged queries with a retriever."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from swiftlet.corpora.trec import check_qrels
from swiftlet.errors import (
    CollectionError,
    EvaluationError,
    InvalidArgumentError,
    QueryError,
    RetrievalError,
    shown,
)
from swiftlet.evaluation.retrievers import Retriever
from swiftlet.processors import available_processors
from swiftlet.progress import Progress, Silence
from swiftlet.types import Qrels, Query, Run

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """The judged queries in the order of their file, with their qrels.

    `warning` names the unknown ids in the qrels if these are allowed; otherwise it is empty.
    Judged documents that are missing from the index count as not found.
    """

    queries: list[Query]
    qrels: Qrels
    warning: str


def match_judgements(
    queries: Iterable[Query],
    qrels: Qrels,
    holds: Callable[[str], bool],
    *,
    qrels_path: Path,
    allow_unknown: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> JudgedSet:
    """Select the judged queries, and check the qrels against queries and documents.

    Each judged document is looked up once, with `threads` threads (default: the available cores).

    :param holds: Whether there is a document with this id, such as `Retriever.holds`.
    :raises CollectionError: When the qrels are empty, have no relevant document or share no query
        with `queries`; unless `allow_unknown`, also when they name an unknown query or document.
    """
    judged = {query_id: grades for query_id, grades in qrels.items() if grades}
    if not judged:
        raise CollectionError(qrels_path, "there is no judgement")
    if not any(grade > 0 for grades in judged.values() for grade in grades.values()):
        raise CollectionError(qrels_path, "no document is relevant: no grade is above 0")
    every_query = list(queries)
    chosen = [query for query in every_query if query.query_id in judged]
    if not chosen:
        example = f", such as {shown(every_query[0].query_id)}" if every_query else ""
        raise CollectionError(
            qrels_path,
            f"none of the {len(judged)} judged queries, such as {shown(next(iter(judged)))}, "
            f"is among the {len(every_query)} queries{example}",
        )
    kept = {query.query_id: judged[query.query_id] for query in chosen}
    document_ids = list(dict.fromkeys(d for grades in kept.values() for d in grades))
    progress = progress or Silence()
    progress.begin("Looking up judged documents", None)
    held = _in_parallel(holds, document_ids, threads, progress)
    missing = {d for d, is_held in zip(document_ids, held, strict=True) if not is_held}
    warning = ""
    try:
        check_qrels(qrels_path, judged, kept.keys(), lambda d: d not in missing)
    except CollectionError as error:
        if not allow_unknown:
            problem = (
                f"{error.problem}; the option --allow-unknown (in Python allow_unknown=True) "
                "accepts them"
            )
            if len(missing) == len(document_ids) and holds("0"):
                problem = (
                    f"{error.problem}, but the documents have the numbers of their rows, such as "
                    "'0': adopt the vectors with --texts or --ids (in Python texts=…, ids=…), "
                    "which give them ids"
                )
            raise CollectionError(error.path, problem) from error
        progress.note(warning := str(error))
    return JudgedSet(chosen, kept, warning)


def run_queries(
    retriever: Retriever,
    queries: Sequence[Query],
    *,
    top_k: int,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Retrieve `top_k` documents for each query, with `threads` threads (default: all cores).

    The run has the order of `queries`, and results the order of the retriever, for any number of
    threads.

    :raises EvaluationError: When a query fails; the message names the query.
    :raises InvalidArgumentError: When the retriever's options are bad for all queries.
    """

    def retrieve(query: Query) -> dict[str, float]:
        try:
            return dict(retriever.retrieve(query.text, top_k))
        except RetrievalError as error:
            if isinstance(error, InvalidArgumentError) and not isinstance(error, QueryError):
                raise  # an argument of all queries
            raise EvaluationError(f"query {shown(query.query_id)}: {error}") from error

    results = _in_parallel(retrieve, queries, threads, progress)
    return {query.query_id: found for query, found in zip(queries, results, strict=True)}


def _in_parallel(
    work: Callable[[Item], Outcome],
    items: Sequence[Item],
    threads: int | None,
    progress: Progress | None,
) -> Iterator[Outcome]:
    """Outcomes in the order of `items`; a failure or Ctrl-C cancels the items not yet started."""
    executor = ThreadPoolExecutor(threads or available_processors(), "evaluation")
    try:
        for outcome in executor.map(work, items):
            if progress is not None:
                progress.advance(1)
            yield outcome
    finally:
        # Wait for started items: the caller may close their index next.
        executor.shutdown(cancel_futures=True)
