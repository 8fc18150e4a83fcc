"""Searches of an index on this machine or of a service, for the retrievers of other programs."""

from pathlib import Path
from typing import Any

import swiftlet
from swiftlet.search.client import Client
from swiftlet.search.searcher import Searcher
from swiftlet.types import Hit

Place = str | Path | Searcher
"""An index directory, its address on a server, the http:// address of a service, or an open
searcher."""


def opened(place: Place, key: str = "") -> Searcher | Client:
    """The searcher of an index, or the client of a service, which is asked when it is searched.

    :param key: The search key of a service that asks for one.
    :raises RetrievalError: When an index cannot be opened.
    """
    if isinstance(place, Searcher):
        return place
    if str(place).startswith(("http://", "https://")):
        return Client(str(place), key, patience_seconds=0)
    return swiftlet.open(place)


def about(hit: Hit) -> dict[str, Any]:
    """The metadata of a hit with its title and its heading, as other programs keep them."""
    places = {"title": hit.title, "heading": hit.passage.heading}
    return {**hit.metadata, **{name: text for name, text in places.items() if text}}
