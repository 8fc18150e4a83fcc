"""The address of an index on a server."""

import re
from dataclasses import dataclass, field

from swiftlet.errors import InvalidArgumentError, shown

TOKEN_VARIABLE = "SWIFTLET_INDEX_TOKEN"  # noqa: S105 - a name
"""The variable with the token of the server, or with USER:PASSWORD."""

ADDRESSES = "milvus://HOST:PORT/COLLECTION, or postgresql://HOST:PORT/DATABASE/TABLE"
"""How addresses are written, as help shows it."""

_PLACE = r"://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})"
_SECRET = re.compile("//.*@")
_NAME = r"[A-Za-z_][A-Za-z0-9_]"
_CHARACTERS = "characters of A-Z, a-z, 0-9 and _, the first of which is no digit"


@dataclass(frozen=True, slots=True)
class _Form:
    """How the addresses of an engine are written."""

    pattern: re.Pattern[str]
    expected: str


_FORMS = {
    "milvus": _Form(
        re.compile(
            rf"(?P<scheme>milvus(\+tls)?){_PLACE}"
            rf"(?:/(?P<database>{_NAME}{{0,254}}))?/(?P<collection>{_NAME}{{0,254}})"
        ),
        "milvus://HOST:PORT/COLLECTION is expected, such as milvus://localhost:19530/papers, with "
        f"a port up to 65535 and a name of at most 255 {_CHARACTERS}",
    ),
    # A server cuts names off after 63 bytes; those of indexes are longer than that of their table.
    "postgresql": _Form(
        re.compile(
            rf"(?P<scheme>postgresql){_PLACE}"
            rf"/(?P<database>[A-Za-z0-9_-]{{1,63}})/(?P<collection>{_NAME}{{0,39}})"
        ),
        "postgresql://HOST:PORT/DATABASE/TABLE is expected, such as "
        "postgresql://localhost:5432/library/papers, with a port up to 65535 and a table of at "
        f"most 40 {_CHARACTERS}",
    ),
}
_ENGINES = {
    "milvus": "milvus", "postgresql": "postgresql", "postgres": "postgresql", "pg": "postgresql"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Address:
    """A collection of a server (in PostgreSQL, a table), and the token that opens it."""

    scheme: str
    host: str
    port: int
    database: str
    collection: str
    token: str = field(default="", repr=False, compare=False)

    @property
    def engine(self) -> str:
        """What the server is: "milvus" or "postgresql"."""
        return _ENGINES[self.scheme.partition("+")[0]]

    @property
    def server(self) -> str:
        """The server alone, as sentences name it."""
        return f"{self.scheme}://{self.host}:{self.port}"

    def __str__(self) -> str:
        database = f"/{self.database}" if self.database else ""
        return f"{self.server}{database}/{self.collection}"


def is_address(text: str) -> bool:
    """Whether a text is meant as an address rather than as a path."""
    return ":" in text and _engine(text) is not None


def _engine(text: str) -> str | None:
    return _ENGINES.get(text.partition(":")[0].partition("+")[0].lower())


def parse_address(text: str) -> Address:
    """The address that a text is: milvus://HOST:PORT/COLLECTION, for example.

    :raises InvalidArgumentError: When it is none.
    """
    if (engine := _engine(text)) is None:
        raise InvalidArgumentError(f"the address is {shown(text)}, but {ADDRESSES} is expected")
    form = _FORMS[engine]
    found = form.pattern.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        hint = ""
        if "@" in text:
            text = _SECRET.sub("//…@", text)
            hint = f"; set {TOKEN_VARIABLE} to what stands before @"
        raise InvalidArgumentError(f"the address is {shown(text)}, but {form.expected}{hint}")
    return Address(
        found["scheme"], found["host"], int(found["port"]), found["database"] or "",
        found["collection"],
    )  # fmt: skip
