"""Where vectors lie: a file, a folder or a server, and which part of it."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from swiftlet.address import TOKEN_VARIABLE
from swiftlet.arguments import StrPath, path_of
from swiftlet.corpora.vector_sources.source import chosen

_ADDRESS = re.compile(r"([a-z]+)(\+[a-z]+)?:/+")


@dataclass(frozen=True, slots=True)
class Place:
    """A place, and the options after its question mark: `papers.db?collection=abstracts`.

    `scheme` is empty for files and folders, and `encrypted` is what follows a plus in it.
    """

    name: str
    scheme: str = ""
    encrypted: bool = False
    host: str = ""
    path: str = ""
    options: dict[str, str] = field(default_factory=dict)
    user: str = field(default="", repr=False)

    @property
    def folder(self) -> Path:
        """The file or folder."""
        return Path(self.path)

    @property
    def token(self) -> str:
        """What opens the server: of the address, or of the variable for tokens."""
        return self.user or os.environ.get(TOKEN_VARIABLE, "")

    def one(self, kind: str, names: list[str], given: str = "") -> str:
        """The collection, or table, that is given or that is the only one.

        :raises CollectionError: When there is none, or several of which none is given.
        """
        given = given or self.options.get(kind, "")
        return chosen(self.name, kind, names, given or None, f"“?{kind}=NAME” at its end")


def parse_place(given: StrPath) -> Place:
    """The place that a text or a path names; of a path that was made of an address, too.

    :raises InvalidArgumentError: When it is neither, or empty.
    """
    text = f"{given}" if isinstance(given, str | os.PathLike) else ""
    if not _ADDRESS.match(text):
        text = f"{path_of('place', given)}"
    base, _, query = text.partition("?")
    if Path(text).exists():  # a name may contain a question mark
        base, query = text, ""
    options = dict(parse_qsl(query))
    if (found := _ADDRESS.match(base)) is None:
        return Place(base, path=base, options=options)
    rest = base[found.end() :]
    parts = urlsplit(f"//{rest}")
    user, _, host = parts.netloc.rpartition("@")
    name = f"{found[1]}{found[2] or ''}://{host}{parts.path}"
    return Place(name, found[1], bool(found[2]), host, parts.path.strip("/"), options, user)
