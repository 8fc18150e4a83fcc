"""Queries, judgements and a retriever → a run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from evaluation.errors import EvaluationError
from evaluation.retrievers import Retriever
from retrieval.collections import check_qrels
from retrieval.errors import CollectionError, RetrievalError, shown
from retrieval.processors import available_processors
from retrieval.types import Qrels, Query, Run

Progress = Callable[[int, int], None]
"""Told (done, total) after each piece of work, on the calling thread."""

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class Judgements:
    """The judged queries in the order of their file, with the qrels of these alone.

    `warning` says which ids of the qrels are unknown, where that was allowed, and is empty
    otherwise. Documents that the index does not hold stay judged: they count as not found.
    """

    queries: list[Query]
    qrels: Qrels
    warning: str


def match_judgements(
    queries: Iterable[Query],
    qrels: Qrels,
    retriever: Retriever,
    *,
    qrels_path: Path,
    allow_unknown: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Judgements:
    """Bring queries, the qrels of `qrels_path` and the documents that `retriever` holds together.

    Each judged document is looked up once, `threads` at a time (default: the cores at hand).

    :raises CollectionError: When the qrels are empty, call nothing relevant or share no query with
        `queries`; unless `allow_unknown`, also when they name any unknown query or document.
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
    held = _in_parallel(retriever.holds, document_ids, threads, progress)
    missing = {d for d, is_held in zip(document_ids, held, strict=True) if not is_held}
    warning = ""
    try:
        check_qrels(qrels_path, judged, kept.keys(), lambda d: d not in missing)
    except CollectionError as error:
        if not allow_unknown:
            raise
        warning = str(error)
    return Judgements(chosen, kept, warning)


def run_queries(
    retriever: Retriever,
    queries: Sequence[Query],
    *,
    top_k: int,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Retrieve `top_k` documents for each query, `threads` at a time (default: the cores at hand).

    The run has the order of `queries`, and its results the order in which the retriever gave them,
    whatever the threads.

    :raises EvaluationError: When a query fails, naming it.
    """

    def retrieve(query: Query) -> dict[str, float]:
        try:
            return dict(retriever.retrieve(query.text, top_k))
        except RetrievalError as error:
            raise EvaluationError(f"query {shown(query.query_id)}: {error}") from error

    results = _in_parallel(retrieve, queries, threads, progress)
    return {query.query_id: found for query, found in zip(queries, results, strict=True)}


def _in_parallel(
    work: Callable[[Item], Outcome],
    items: Sequence[Item],
    threads: int | None,
    progress: Progress | None,
) -> Iterator[Outcome]:
    """Outcomes in the order of `items`; after a failure or Ctrl-C nothing further is begun."""
    executor = ThreadPoolExecutor(threads or available_processors(), "evaluation")
    try:
        for done, outcome in enumerate(executor.map(work, items), start=1):
            if progress is not None:
                progress(done, len(items))
            yield outcome
    finally:
        # What runs is waited for: its caller may close the index that it works on.
        executor.shutdown(cancel_futures=True)
