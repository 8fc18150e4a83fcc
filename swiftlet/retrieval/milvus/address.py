"""The address of an index on a Milvus server."""

import re
from dataclasses import dataclass, field

from swiftlet.retrieval.errors import InvalidArgumentError, shown

SCHEMES = {"milvus": "http", "milvus+tls": "https"}
"""The schemes of addresses, and those that Milvus's client has for them."""

TOKEN_VARIABLE = "SWIFTLET_INDEX_TOKEN"  # noqa: S105 - a name
"""The variable with the token of the server, or with USER:PASSWORD."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,254}"
_ADDRESS = re.compile(
    rf"(?P<scheme>[a-z+]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{{1,5}})"
    rf"(?:/(?P<database>{_NAME}))?/(?P<collection>{_NAME})"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A collection of a Milvus server, and the token that opens it."""

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

    @property
    def uri(self) -> str:
        """The server, as Milvus's client takes it."""
        return f"{SCHEMES[self.scheme]}://{self.host}:{self.port}"

    def __str__(self) -> str:
        database = f"/{self.database}" if self.database else ""
        return f"{self.server}{database}/{self.collection}"


def is_address(text: str) -> bool:
    """Whether a text is meant as an address rather than as a path."""
    return text.partition(":")[0] in SCHEMES


def parse_address(text: str) -> Address:
    """The address milvus://HOST:PORT/COLLECTION, or milvus://HOST:PORT/DATABASE/COLLECTION.

    :raises InvalidArgumentError: When it is none.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or found["scheme"] not in SCHEMES or int(found["port"]) > 65_535:
        hint = f"; the token of the server stands in {TOKEN_VARIABLE}" if "@" in text else ""
        raise InvalidArgumentError(
            f"the address is {shown(text)}, but milvus://HOST:PORT/COLLECTION is expected, such as "
            "milvus://localhost:19530/papers, with a port up to 65535 and a name of letters, "
            f"digits and _{hint}"
        )
    return Address(
        found["scheme"], found["host"], int(found["port"]), found["database"] or "",
        found["collection"],
    )  # fmt: skip
