"""Where vectors lie: a file, a folder or a server, and which part of it."""

import base64
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from swiftlet.address import TOKEN_VARIABLE
from swiftlet.arguments import StrPath, path_of
from swiftlet.corpora.lines import read_errors, reason_of
from swiftlet.corpora.vector_sources.source import chosen
from swiftlet.corpora.vectors import SourceAwayError
from swiftlet.errors import CollectionError, InvalidArgumentError

_ADDRESS = re.compile(r"([^/:?#+]{2,})(\+[^/:?#+]+)?:/+")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_LAST_PORT = 65_535


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
        """What opens the server: of the address, or of the variable for tokens.

        :raises CollectionError: When it cannot stand in the head of a request.
        """
        token = self.user or os.environ.get(TOKEN_VARIABLE, "")
        if not token.isprintable() or not (token.isascii() or ":" in token):
            raise CollectionError(
                self.name,
                f"what stands before @, or in {TOKEN_VARIABLE}, has a character that is not "
                "printable ASCII: is there a line break at its end?",
            )
        return token

    @contextmanager
    def reading(self, *kinds: type[Exception]) -> Iterator[None]:
        """Name read errors of a server, which may say in its errors what it was asked with."""
        of_reading: tuple[type[Exception], ...] = (OSError, EOFError, *kinds)
        try:
            yield
        except of_reading as error:
            strerror = error.strerror if isinstance(error, OSError) else None
            said = self.hidden(strerror or f"{error}" or type(error).__name__)
            raise SourceAwayError(self.name, f"cannot be read: {reason_of(said)}") from None

    def hidden(self, text: str) -> str:
        """A text of the server without what opens it."""
        token, password = self.token, self.token.partition(":")[2]
        secrets = {token, password, unquote(password), self.options.get("password", "")} - {""}
        secrets |= {base64.b64encode(each.encode()).decode() for each in secrets}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "…")
        return text

    def one(self, kind: str, names: list[str], given: str = "") -> str:
        """The collection, or table, that is given or that is the only one.

        :raises CollectionError: When there is none, or several of which none is given.
        """
        given = given or self.options.get(kind, "")
        return chosen(self.name, kind, names, given or None, f"“?{kind}=NAME” at its end")


def parse_place(given: StrPath) -> Place:
    """The place that a text or a path names; of a path that was made of an address, too.

    :raises InvalidArgumentError: When it is neither, or empty; when the host is none.
    """
    text = f"{given}" if isinstance(given, str | os.PathLike) else ""
    if (found := _ADDRESS.match(text)) is None:
        text = f"{path_of('place', given)}"
        base, _, query = text.partition("?")
        with read_errors(text):
            if Path(text).exists():  # a name may contain a question mark
                base, query = text, ""
        return Place(base, path=base, options=dict(parse_qsl(query)))
    # A password may have any character, so that the last @ comes first; nothing bad is shown.
    user, _, rest = text[found.end() :].rpartition("@")
    base, _, query = rest.partition("?")
    host, _, path = base.partition("/")
    scheme = found[1].lower()
    is_host = [_HOST.fullmatch(each) for each in host.split(",")] if host else []
    if not all(is_host) or any(int((each[2] or ":0")[1:]) > _LAST_PORT for each in is_host if each):
        raise InvalidArgumentError(
            f"the host of the address {scheme}://… is none: HOST or HOST:PORT is expected, IPv6 in "
            "brackets; in what follows it, %40 stands for @"
        )
    if not base.isprintable():
        raise InvalidArgumentError(
            f"the address {scheme}://… has a character that is not printable"
        )
    name = f"{scheme}{found[2] or ''}://{host}{'/' * bool(path)}{path}"
    options = dict(parse_qsl(query))
    return Place(name, scheme, bool(found[2]), host, path.strip("/"), options, user)
