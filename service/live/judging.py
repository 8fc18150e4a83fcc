"""The folder of judgements that people judge at /judge."""

from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import time
from typing import Any

from service.wire.problems import InvalidRequestError, NotReadyError
from swiftlet.errors import CollectionError, InvalidArgumentError, shown
from swiftlet.relevance.agreement import sum_up
from swiftlet.relevance.judgements import (
    Judgement,
    append_judgements,
    check_judge,
    read_judgements,
)
from swiftlet.relevance.pool import FILE, Pool, holds, read_pool
from swiftlet.search.searcher import Searcher


class Judging:
    """Reads a pool and appends judgements; several processes may do so at once.

    All calls read or write files, so they belong on other threads than the event loop.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: tuple[tuple[int, ...], Pool] | None = None

    def pool(self, judge: str, searcher: Searcher) -> dict[str, Any]:
        """What there is to judge, each document with the grade that `judge` gave it, if any.

        :raises InvalidRequestError: When the name is none.
        :raises NotReadyError: When there is no pool, or it is of another index.
        """
        judge = _checked(judge)
        try:
            pool = self._pool()
            there = pool.held(partial(holds, searcher))
            given = read_judgements(self._folder, there.pairs).of(judge)
        except CollectionError as error:
            raise NotReadyError(f"{error}") from error
        queries = [
            {
                "query_id": query.query_id,
                "query": query.text,
                "documents": [
                    {**asdict(each), "grade": given.get((query.query_id, each.document_id))}
                    for each in query.documents
                ],
            }
            for query in there.queries
        ]
        return {"judge": judge, "queries": queries, "left_out": len(pool) - len(there)}

    def judge(self, judge: str, query_id: str, document_id: str, grade: int | None) -> int:
        """Append a grade, and write the qrels; how many documents `judge` has judged.

        :raises InvalidRequestError: When the name is none, or the pool has no such document.
        :raises NotReadyError: When there is no pool.
        :raises StorageError: When the disk refuses; then the grade may have to be given again.
        """
        judgement = Judgement(
            time=round(time(), 3),
            judge=_checked(judge),
            query_id=query_id,
            document_id=document_id,
            grade=grade,
        )
        try:
            pool = self._pool()
            if (query_id, document_id) not in pool.pairs:
                raise InvalidRequestError(
                    "document_id",
                    f"the pool has no document {shown(document_id)} for the query "
                    f"{shown(query_id)}: load the page again",
                )
            append_judgements(self._folder, [judgement])
            verdict = sum_up(self._folder, pool)
        except CollectionError as error:
            raise NotReadyError(f"{error}") from error
        return len(verdict.judgements.of(judgement.judge))

    def _pool(self) -> Pool:
        """The pool, which is read again only if it was written anew.

        :raises CollectionError: As `read_pool`.
        """
        state: tuple[int, ...] = ()
        with suppress(OSError):
            found = (self._folder / FILE).stat()
            state = found.st_ino, found.st_mtime_ns, found.st_size
        if self._read is None or not state or self._read[0] != state:
            self._read = state, read_pool(self._folder)
        return self._read[1]


def _checked(judge: str) -> str:
    try:
        return check_judge(judge)
    except InvalidArgumentError as error:
        raise InvalidRequestError("judge", f"{error}") from error
