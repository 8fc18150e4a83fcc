"""What a log of searches says: which queries are frequent, slow, badly answered or asked anew."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from math import erfc, sqrt
from pathlib import Path
from statistics import median
from typing import NamedTuple

from swiftlet.relevance.interleaving import Duel, p_text
from swiftlet.relevance.log import HASHED, Log, LoggedSearch
from swiftlet.search.searcher import Searcher
from swiftlet.search.weak import weak_below

SHOWN = 20
"""Queries of each list."""

_TYPING_SECONDS = 3.0
_ANEW_SECONDS = 60.0
_KEPT_TIMES = 200
_ASKED_WORDS = 2_000
_WORD = re.compile(r"\w{2,}")
_MOST_PERIODS = 35
_SIGNIFICANT = 0.01
_HOUR, _DAY, _WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)


@dataclass(slots=True)
class QueryFigures:
    """All searches for one query, whatever its case."""

    query: str
    searches: int = 0
    weak: int = 0
    """Searches without a document above the line of the index, or without any document."""

    anew: int = 0
    """Searches after which the same client soon asked something else, and opened nothing."""

    clicked: int = 0
    ranks: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    @property
    def milliseconds(self) -> float:
        """The median."""
        return median(self.times) if self.times else 0.0


class Period(NamedTuple):
    """An hour, a day or a week."""

    start: datetime
    searches: int
    weak: int
    anew: int
    clicked: int
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of a log."""

    queries: list[QueryFigures]
    followed: Counter[tuple[str, str]]
    """How often one query came soon after another one, of the same client."""

    new_words: list[tuple[str, int]]
    """Words of queries that no document has, with their searches."""

    periods: list[Period]
    searches: int
    typed: int
    """Searches for the beginnings of a query while it was typed, which count nowhere else."""

    clicks: int
    foreign_clicks: int
    """Clicks on documents that their search has not shown; they count nowhere else."""

    damaged: int
    duels: list[Duel]
    """What clicks say of each challenger."""

    @property
    def frequent(self) -> list[QueryFigures]:
        """Those with the most searches."""
        return self._first(lambda each: each.searches)

    @property
    def slow(self) -> list[QueryFigures]:
        """Those with the largest median time."""
        return self._first(lambda each: each.milliseconds)

    @property
    def weak(self) -> list[QueryFigures]:
        """Those with the most searches without a good answer."""
        return self._first(lambda each: each.weak)

    @property
    def anew(self) -> list[tuple[tuple[str, str], int]]:
        """The most frequent pairs of a query and the one that followed it."""
        return self.followed.most_common(SHOWN)

    @property
    def drift(self) -> str:
        """What the share of weak searches is in the last quarter of the time beside the earlier."""
        recent = self.periods[-max(1, len(self.periods) // 4) :]
        earlier = self.periods[: -len(recent)]
        if not earlier:
            return "There is no earlier hour, day or week to compare with"
        (weak, searches), (weak_before, before) = map(_weak_of, (recent, earlier))
        p_value = two_shares_test(weak, searches, weak_before, before)
        verdict = "differs" if p_value < _SIGNIFICANT else "does not differ significantly"
        return (
            f"{weak / searches:.1%} of the searches since {recent[0].start:%Y-%m-%d %H:%M} are "
            f"weak, {weak_before / before:.1%} of the earlier ones: the share {verdict} "
            f"({p_text(p_value)})"
        )

    def _first(self, value: Callable[[QueryFigures], float]) -> list[QueryFigures]:
        found = sorted((each for each in self.queries if value(each)), key=value, reverse=True)
        return found[:SHOWN]


def read_report(folder: Path, searcher: Searcher) -> Report:
    """Read the log in a folder, of an index that `searcher` searches.

    :raises CollectionError: When there is no log.
    :raises RetrievalError: As `Searcher.search`.
    """
    return report_on(Log(folder), weak_below(searcher), partial(_without_hits, searcher))


def _without_hits(searcher: Searcher, words: Iterable[str]) -> Iterator[str]:
    """Those words that no document has; none for an index without words."""
    if (index := searcher.parts.lexical) is None:
        return
    for word in words:
        if not len(index.parse(word, exact=True, synonyms=searcher.synonyms).search(1)[1]):
            yield word


def report_on(
    log: Log,
    lines: Mapping[str, float],
    new_words: Callable[[Iterable[str]], Iterable[str]] = lambda _: (),
) -> Report:
    """Read a log once and count; in memory are its distinct queries, its clicks and its sessions.

    :param lines: The score of each mode below which the best hit is weak.
    :param new_words: Gives those words that no document has; asked for the most frequent ones.
    """
    reading = _Reading(log)
    queries: dict[str, QueryFigures] = {}
    followed: Counter[tuple[str, str]] = Counter()
    hours: dict[datetime, list[_Counted]] = {}
    duels: dict[str, Duel] = {}
    for search, following in reading.with_following():
        ranks = reading.ranks(search)
        if search.teams:
            duel = duels.setdefault(search.challenger, Duel(search.challenger))
            duel.count((search.session or search.id, search.query.casefold()), search.teams, ranks)
        figures = queries.setdefault(search.query.casefold(), QueryFigures(search.query))
        figures.clicked += bool(ranks)
        figures.ranks += ranks
        if search.offset:  # further documents of a search that is counted already
            continue
        is_weak = _is_weak(search, lines)
        is_anew = following is not None and not ranks and _is_anew(search, following)
        milliseconds = sum(search.milliseconds.values())
        figures.searches += 1
        figures.weak += is_weak
        figures.anew += is_anew
        if len(figures.times) < _KEPT_TIMES:
            figures.times.append(milliseconds)
        if is_anew and following is not None:
            followed[search.query, following.query] += 1
        hour = datetime.fromtimestamp(search.time // 3600 * 3600, UTC)
        hours.setdefault(hour, []).append(_Counted(is_weak, is_anew, bool(ranks), milliseconds))
    words: Counter[str] = Counter()
    for figures in queries.values():
        is_text = not figures.query.startswith(HASHED)
        for word in {*_WORD.findall(figures.query.casefold())} if is_text else ():
            words[word] += figures.searches
    asked = dict(words.most_common(_ASKED_WORDS))
    shown = sum(len(each.ranks) for each in queries.values())
    return Report(
        queries=[*queries.values()],
        followed=followed,
        new_words=[(word, asked[word]) for word in new_words(asked)],
        periods=[*_periods(hours)],
        searches=sum(each.searches for each in queries.values()),
        typed=reading.num_typed,
        clicks=shown,
        foreign_clicks=reading.num_clicks - shown,
        damaged=log.num_damaged,
        duels=[*duels.values()],
    )


class _Reading:
    """The searches of a log, each with what its client did next."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._opened: dict[str, dict[str, None]] = {}
        for click in log.clicks():
            self._opened.setdefault(click.id, {})[click.document_id] = None
        self.num_clicks = sum(map(len, self._opened.values()))
        self.num_typed = 0

    def ranks(self, search: LoggedSearch) -> list[int]:
        """The ranks, from 1, of the documents that were opened from an answer."""
        places = {name: rank for rank, (name, _) in enumerate(search.hits, search.offset + 1)}
        return [places[name] for name in self._opened.get(search.id, ()) if name in places]

    def with_following(self) -> Iterator[tuple[LoggedSearch, LoggedSearch | None]]:
        """Each search with the next one of its session; further pages follow nothing."""
        latest: dict[str, LoggedSearch] = {}
        for search in self._finished():
            if not search.session or search.offset:
                yield search, None
                continue
            earlier = latest.get(search.session)
            latest[search.session] = search
            if earlier is not None:
                yield earlier, search
        for search in latest.values():
            yield search, None

    def _finished(self) -> Iterator[LoggedSearch]:
        """All searches but those for the beginnings of a query, made while it was typed."""
        latest: dict[str, LoggedSearch] = {}
        for search in self._log.searches():
            if not search.session or search.offset:
                yield search
                continue
            earlier = latest.get(search.session)
            latest[search.session] = search
            if earlier is None:
                continue
            if _is_typed(earlier, search) and not self.ranks(earlier):
                self.num_typed += 1
            else:
                yield earlier
        yield from latest.values()


class _Counted(NamedTuple):
    is_weak: bool
    is_anew: bool
    is_clicked: bool
    milliseconds: float


def _is_typed(search: LoggedSearch, following: LoggedSearch) -> bool:
    """Whether a query was the beginning of the next one, a moment before."""
    one, other = search.query.casefold(), following.query.casefold()
    soon = following.time - search.time < _TYPING_SECONDS
    return soon and one != other and (other.startswith(one) or one.startswith(other))


def _is_anew(search: LoggedSearch, following: LoggedSearch) -> bool:
    is_other = search.query.casefold() != following.query.casefold()
    return is_other and following.time - search.time < _ANEW_SECONDS


def _is_weak(search: LoggedSearch, lines: Mapping[str, float]) -> bool:
    if not search.hits:
        return True
    line = lines.get(search.mode) if search.is_plain else None
    return line is not None and max(score for _, score in search.hits) < line


def _periods(hours: Mapping[datetime, Sequence[_Counted]]) -> Iterator[Period]:
    """Hours, days or weeks: the shortest with which there are few."""
    if not hours:
        return
    first, last = min(hours), max(hours)
    lengths = (length for length in (_HOUR, _DAY) if last - first < _MOST_PERIODS * length)
    length = next(lengths, _WEEK)
    found: dict[datetime, list[_Counted]] = {}
    for hour in sorted(hours):
        start = hour if length == _HOUR else hour.replace(hour=0)
        if length == _WEEK:
            start -= timedelta(days=start.weekday())
        found.setdefault(start, []).extend(hours[hour])
    for start, counted in found.items():
        weak, anew, clicked, times = zip(*counted, strict=True)
        yield Period(start, len(counted), sum(weak), sum(anew), sum(clicked), median(times))


def _weak_of(periods: Iterable[Period]) -> tuple[int, int]:
    """The weak searches of periods, and all."""
    weak, searches = zip(*((each.weak, each.searches) for each in periods), strict=True)
    return sum(weak), sum(searches)


def two_shares_test(some: int, of: int, other: int, of_other: int) -> float:
    """The two-sided p-value that two counted shares are one, by the normal distribution."""
    together = (some + other) / (of + of_other)
    spread = sqrt(together * (1 - together) * (1 / of + 1 / of_other))
    if not spread:
        return 1.0
    return erfc(abs(some / of - other / of_other) / spread / sqrt(2))
