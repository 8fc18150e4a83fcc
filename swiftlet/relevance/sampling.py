"""Queries to judge: drawn from a log of searches, or made of the corpus."""

from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from random import Random
from typing import Literal

from swiftlet.errors import CollectionError
from swiftlet.relevance.log import HASHED, Log
from swiftlet.relevance.report import QueryFigures, report_on
from swiftlet.search.searcher import Searcher
from swiftlet.search.weak import weak_below

By = Literal["stratified", "frequency", "doubt"]
"""How queries are drawn: equally many of the frequent, the usual and the rare ones; as often as
they are asked; or as often as they are in doubt."""

_DOCUMENTS_A_QUERY = 3
"""That are read for each query that is made, since titles repeat."""

_LONGEST = 200


def queries_of_log(folder: Path, searcher: Searcher, count: int, by: By) -> list[str]:
    """At most `count` queries of a log, the same each time; searches while typing are left out.

    :raises CollectionError: When there is no log, or it has no query in words.
    """
    report = report_on(Log(folder), weak_below(searcher))
    readable = [
        each for each in report.queries
        if each.searches and each.query.strip() and not each.query.startswith(HASHED)
    ]  # fmt: skip
    if not readable:
        raise CollectionError(
            folder, "the log has no query in words; swiftlet judge makes queries without --log"
        )
    draw = Random(0)  # noqa: S311 - the same queries each time
    if by == "stratified":
        drawn = _in_strata(readable, draw)
    elif by == "frequency":
        drawn = _weighted(readable, lambda each: each.searches, draw)
    else:
        has_clicks = report.clicks > 0  # without any, they say nothing of a single query
        drawn = _weighted(readable, lambda each: _in_doubt(each, has_clicks=has_clicks), draw)
    return [each.query for each in drawn[:count]]


def queries_of_corpus(searcher: Searcher, count: int) -> list[str]:
    """At most `count` titles and headings, each of another document, the same each time.

    :raises CollectionError: When no document has one.
    """
    draw, store = Random(0), searcher.parts.store  # noqa: S311 - the same queries each time
    found: dict[str, str] = {}
    for document_id, title in store.titles(_DOCUMENTS_A_QUERY * count).items():
        sections = searcher.document(document_id).sections
        headings = {each.heading.rpartition(" > ")[2].strip() for each in sections}
        if texts := sorted({title.strip(), *headings} - {""}):
            text = draw.choice(texts)[:_LONGEST]
            found.setdefault(text.casefold(), text)
    if not found:
        raise CollectionError(
            f"{searcher.place}",
            "no document has a title or a heading to make a query of: name a log by --log",
        )
    return draw.sample([*found.values()], min(count, len(found)))


def _in_doubt(figures: QueryFigures, *, has_clicks: bool) -> int:
    """Searches that were weak, asked anew or, where clicks are known, without one."""
    unopened = figures.searches - figures.clicked if has_clicks else 0
    return max(figures.weak, figures.anew, unopened)


def _weighted(
    found: Sequence[QueryFigures], weight: Callable[[QueryFigures], int], draw: Random
) -> list[QueryFigures]:
    """All with a weight, in an order that draws them by weight without replacement."""
    keys = {each.query: draw.random() ** (1 / weight(each)) for each in found if weight(each) > 0}
    drawn = [each for each in found if each.query in keys]
    return sorted(drawn, key=lambda each: keys[each.query], reverse=True)


def _in_strata(found: Sequence[QueryFigures], draw: Random) -> list[QueryFigures]:
    """The frequent, the usual and the rare ones in turns; each kind has a third of the searches."""
    third = sum(each.searches for each in found) / 3
    strata: tuple[list[QueryFigures], ...] = [], [], []
    seen = 0
    for each in sorted(found, key=lambda each: each.searches, reverse=True):
        strata[min(2, int(seen / third))].append(each)
        seen += each.searches
    for stratum in strata:
        draw.shuffle(stratum)
    return [each for each in chain.from_iterable(zip_longest(*strata)) if each is not None]
