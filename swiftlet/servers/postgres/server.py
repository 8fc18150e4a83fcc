"""What is done with indexes on a PostgreSQL server; one is followed while other programs write."""

from typing_extensions import override

from swiftlet.address import Address
from swiftlet.encoders.encoder import Encoder
from swiftlet.index.lexical.analysis import analysis_in
from swiftlet.index.parts import SearchParts
from swiftlet.index.server import Description, Server
from swiftlet.manifest import Manifest
from swiftlet.servers.parts import ServerIndex
from swiftlet.servers.postgres.corpus import PostgresCorpus
from swiftlet.servers.postgres.parts import PostgresParts, PostgresPassages
from swiftlet.servers.postgres.table import State, Table
from swiftlet.servers.postgres.target import PostgresTarget
from swiftlet.servers.postgres.words import PostgresWords
from swiftlet.servers.postgres.writer import PostgresWriter


class PostgresIndex(ServerIndex):
    """The parts of an index as it is now; what has changed has another number."""

    def __init__(self, address: Address, encoder: Encoder) -> None:
        self._table, self._encoder = Table(address), encoder
        self._open(self._table.seen())

    @property
    @override
    def state(self) -> tuple[SearchParts, Manifest, int, str]:
        made, state = self._seen
        name = f"{self._manifest.short_fingerprint}.{made}.{state.change}"
        return self._parts, self._manifest, state.change, name

    @override
    def refresh(self) -> bool:
        if (seen := self._table.seen()) == self._seen:
            return False
        self._open(seen)
        return True

    def _open(self, seen: tuple[int, State]) -> None:
        (_, state), table = seen, self._table
        self._manifest = state.manifest_at(table.address)
        table.use(state.ef_search)
        words = None
        if state.mean_length is not None:
            words = PostgresWords(table, analysis_in(self._manifest.details), state.num_passages)
        passages = PostgresPassages(table, state)
        self._parts = PostgresParts(
            encoder=self._encoder,
            index=passages,
            passage_to_document=passages,
            store=passages,
            lexical=words,
            address=table.address,
            dim=state.width,
        )
        self._seen, table.is_open = seen, True


def manifest_at(address: Address) -> Manifest:
    """The manifest of the index at an address."""
    return Table(address).seen()[1].manifest_at(address)


def describe(address: Address) -> Description:
    """What there is at an address."""
    _, state = Table(address).seen()
    visited = {} if state.ef_search is None else {"passages of a graph": state.ef_search}
    return Description(
        state.manifest_at(address),
        state.num_documents,
        state.num_passages,
        state.mean_length is not None,
        visited,
    )


SERVER = Server(
    source=PostgresIndex,
    manifest=manifest_at,
    description=describe,
    writer=PostgresWriter,
    target=PostgresTarget,
    corpus=PostgresCorpus,
)
