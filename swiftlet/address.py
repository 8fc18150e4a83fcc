"""The address of an index on a server, and the plugin for the servers of its scheme."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from swiftlet.errors import InvalidArgumentError, RetrievalError, shown
from swiftlet.extras import extra

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

TOKEN_VARIABLE = "SWIFTLET_INDEX_TOKEN"  # noqa: S105 - a name
"""The variable with the token of the server, or with USER:PASSWORD."""

ADDRESSES = "or SCHEME://HOST:PORT/… of an index on a server"
"""How addresses are written, as help shows it after another place."""

ENTRY_POINTS = "swiftlet.servers"
"""The group of entry points: the name is a scheme, and the object is a `ServerPlugin`."""

NAME = "[A-Za-z_][A-Za-z0-9_]"
"""The beginning of a name in an address, as a regular expression."""

NAME_CHARACTERS = "characters of A-Z, a-z, 0-9 and _, the first of which is no digit"

_PLACE = r"://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.-]+)(?:\+[A-Za-z]+)?:/")


@dataclass(frozen=True, slots=True)
class ServerPlugin:
    """A kind of server: how its addresses are written, and the module that knows its indexes.

    An address has one of the `schemes`, and after the port what the regular expression `path`
    matches. Its group `collection` is the name of the index, and its group `database`, if it has
    one, the database. `shape` shows an address, and `details` continue the sentence. The `module`
    imports the server's client, and its `SERVER` is a `swiftlet.index.server.Server`. `extra` is
    Swiftlet's extra with the client; a plugin of another package requires its client itself.
    """

    schemes: tuple[str, ...]
    path: str
    shape: str
    details: str
    module: str
    extra: str | None = None

    def server(self) -> Any:
        """The `SERVER` of the module.

        :raises MissingExtraError: When the server's client is not installed.
        :raises RetrievalError: When the module of another package has no `SERVER`.
        """
        if self.extra is None:
            try:
                return import_module(self.module).SERVER
            except (ImportError, AttributeError) as error:
                raise RetrievalError(f"the plugin {self.module} has no SERVER: {error}") from error
        with extra(self.extra):
            return import_module(self.module).SERVER


@dataclass(frozen=True, slots=True)
class Address:
    """A collection of a server (on some servers, a table), and the token that opens it."""

    scheme: str
    host: str
    port: int
    database: str
    collection: str
    token: str = field(default="", repr=False, compare=False)

    @property
    def server(self) -> str:
        """The server alone, as sentences name it."""
        return f"{self.scheme}://{self.host}:{self.port}"

    def __str__(self) -> str:
        database = f"/{self.database}" if self.database else ""
        return f"{self.server}{database}/{self.collection}"


def is_address(text: str) -> bool:
    """Whether a text, or a path that was made of one, begins with the scheme of a plugin."""
    found = _SCHEME.match(text)
    return found is not None and found[1].lower() in _entry_points()


def typed_address(text: str) -> str | None:
    """What was typed, if a text begins with any scheme: `papers://…`; a path has lost a slash."""
    if (scheme := _SCHEME.match(text)) is None:
        return None
    return f"{scheme[0]}/{text[scheme.end() :].removeprefix('/')}"


def parse_address(text: str) -> Address:
    """The address that a text is: SCHEME://HOST:PORT/COLLECTION, for example.

    :raises InvalidArgumentError: When it is none, or there is no plugin for its scheme.
    """
    expected, found = "", None
    if (scheme := _SCHEME.match(text)) is not None and is_address(text):
        plugin = plugin_of(scheme[1].lower())
        schemes = "|".join(map(re.escape, plugin.schemes))
        found = re.fullmatch(f"(?P<scheme>{schemes}){_PLACE}{plugin.path}", text)
        expected = f"{plugin.shape} is expected, {plugin.details}"
    if found is None or int(found["port"]) > 65_535:
        hint = ""
        if "@" in text:
            place, slashes, rest = text.partition("//")
            text = f"{place}{slashes}{'…@' * ('@' in rest)}{rest.rpartition('@')[2]}"
            hint = f"; set {TOKEN_VARIABLE} to what stands before @"
        raise InvalidArgumentError(
            f"the address is {shown(text)}, but {expected or _expected()}{hint}"
        )
    parts = found.groupdict()
    return Address(
        parts["scheme"], parts["host"], int(parts["port"]), parts.get("database") or "",
        parts["collection"],
    )  # fmt: skip


def plugin_of(scheme: str) -> ServerPlugin:
    """The plugin for the servers of a scheme, of which the part after a plus sign does not count.

    :raises InvalidArgumentError: When none is installed.
    :raises RetrievalError: When it cannot be imported.
    """
    if (entry := _entry_points().get(scheme.partition("+")[0])) is None:
        raise InvalidArgumentError(
            f"the scheme of the address is {shown(scheme)}, but {_expected()}"
        )
    try:
        found = entry.load()
    except Exception as error:  # whatever the module of another package raises
        raise RetrievalError(f"the plugin {entry.value} cannot be loaded: {error}") from error
    if not isinstance(found, ServerPlugin) or "(?P<collection>" not in found.path:
        raise RetrievalError(
            f"the plugin {entry.value} is no ServerPlugin whose path has a group `collection`"
        )
    return found


@cache
def _entry_points() -> "Mapping[str, EntryPoint]":
    # This reads the metadata of every installed package, so only an address needs it.
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=ENTRY_POINTS)}


def _expected() -> str:
    shapes = []
    for scheme in sorted(_entry_points()):
        with suppress(RetrievalError):  # a broken plugin is named when an address has its scheme
            shapes.append(plugin_of(scheme).shape)
    return (
        f"{', or '.join(shapes) or 'an address'} is expected; for another kind of server, install "
        "a package with a plugin for its scheme"
    )
