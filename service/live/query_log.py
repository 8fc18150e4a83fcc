"""The log of searches and clicks, written on a thread of its own: no answer waits for it."""

import hmac
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from queue import Full, Queue
from threading import Thread
from time import time

from fastapi import Request
from prometheus_client import CollectorRegistry, Counter

from service.wire.context import STAGES, RequestContext
from swiftlet.index.columns.filters import Every, conditions
from swiftlet.relevance.log import HASHED, Click, LoggedSearch, LogWriter
from swiftlet.search.request import SearchRequest
from swiftlet.search.searcher import Searcher

REDACTED = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]+|(?<!\d)\+?\d(?:[ ()/.-]{0,2}\d){8,}")
"""What is cut out of queries by default: e-mail addresses, and numbers of nine digits or more."""

_CUT = "…"
_LONGEST_QUERY = 1_000
_MOST_HITS = 100
_MOST_WAITING = 10_000
_SECONDS_A_SESSION = 3_600
_DIGEST_BYTES = 8

logger = logging.getLogger(__name__)


class QueryLog:
    """Takes what was searched and opened, and writes it soon; what the disk refuses is dropped."""

    def __init__(
        self,
        writer: LogWriter,
        registry: CollectorRegistry,
        *,
        secret: bytes,
        redact: re.Pattern[str] = REDACTED,
        hash_key: str = "",
    ) -> None:
        """Write into `writer` from now on.

        :param secret: Only the processes of one service know it. Without it, nobody can tell to
            which client a session belongs.
        :param redact: What it matches is cut out of queries.
        :param hash_key: With it, the log has an HMAC of each query instead of its text.
        """
        self._writer, self._secret = writer, secret
        self._redact, self._hash_key = redact, hash_key.encode()
        entries = Counter(
            "swiftlet_query_log_entries",
            "Searches and clicks for the query log, by what became of them.",
            ["outcome"],
            registry=registry,
        )
        self._written, self._dropped = entries.labels("written"), entries.labels("dropped")
        self._is_failing = False
        self._waiting: Queue[LoggedSearch | Click | None] = Queue(_MOST_WAITING)
        # A daemon, so that a file system that hangs does not keep the process from ending.
        self._thread = Thread(target=self._work, name="query log", daemon=True)
        self._thread.start()

    def searched(
        self,
        request: Request,
        asked: SearchRequest,
        searcher: Searcher,
        generation: str,
        hits: Sequence[tuple[str, float]],
        challenger: str = "",
        teams: str = "",
    ) -> None:
        """Note an answered search; one without a text is left out.

        :param challenger: What was mixed in, if anything was, like `teams`.
        """
        if not asked.query:
            return
        context: RequestContext = request.state.context
        seconds = context.searches[-1].stage_seconds
        stages = zip(STAGES, seconds, strict=True)
        now = time()
        entry = LoggedSearch(
            time=round(now, 3),
            id=context.request_id,
            session=self.session(request, now),
            query=asked.query[:_LONGEST_QUERY],
            mode=asked.mode or searcher.modes[0],
            index=generation,
            hits=[(name, round(score, 5)) for name, score in hits[:_MOST_HITS]],
            offset=asked.offset,
            filter=sorted({each.path for each in conditions(asked.filter or Every(()))}),
            milliseconds={name: round(1000 * each, 3) for name, each in stages if each},
            challenger=challenger if teams else "",
            teams=teams[:_MOST_HITS],
            is_plain=not teams
            and asked.fusion == "weighted"
            and asked.sort is None
            and asked.weight in {None, searcher.weight},
        )
        self._add(entry)

    def clicked(self, search_id: str, document_id: str) -> None:
        """Note that a document was opened from the answer to a search."""
        self._add(Click(time=round(time(), 3), id=search_id, document_id=document_id))

    def close(self) -> None:
        """Write what waits, and end."""
        self._waiting.put(None)
        self._thread.join()

    def _add(self, entry: LoggedSearch | Click) -> None:
        try:
            self._waiting.put_nowait(entry)
        except Full:
            self._dropped.inc()

    def session(self, request: Request, now: float) -> str:
        """The same for an hour for requests of one client, and then another."""
        client = request.headers.get("x-forwarded-for") or (request.client or [""])[0]
        agent = request.headers.get("user-agent", "")
        named = f"{int(now / _SECONDS_A_SESSION)} {client} {agent}"
        return blake2b(named.encode(), digest_size=_DIGEST_BYTES, key=self._secret).hexdigest()

    def _work(self) -> None:
        is_open = True
        while is_open:
            entries = [self._waiting.get()]
            while not self._waiting.empty():
                entries.append(self._waiting.get())
            is_open = None not in entries
            self._write([self._private(each) for each in entries if each is not None])
        self._writer.close()

    def _write(self, entries: list[LoggedSearch | Click]) -> None:
        try:
            self._writer.append(entries)
        except OSError as error:
            self._dropped.inc(len(entries))
            if not self._is_failing:
                logger.warning("the query log cannot be written: %s", error.strerror)
            self._is_failing = True
            return
        if self._is_failing:
            logger.info("the query log is written again")
        self._is_failing = False
        self._written.inc(len(entries))

    def _private(self, entry: LoggedSearch | Click) -> LoggedSearch | Click:
        """The entry with its query as the settings want it; on this thread, since it takes time."""
        if isinstance(entry, Click):
            return entry
        query = " ".join(entry.query.split())
        if self._hash_key:
            digest = hmac.digest(self._hash_key, query.casefold().encode(), "sha256")
            query = f"{HASHED}{digest[:_DIGEST_BYTES].hex()}"
        else:
            query = self._redact.sub(_CUT, query)
        return replace(entry, query=query)
