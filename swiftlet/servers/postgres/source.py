"""An index on a PostgreSQL server, followed while other programs write."""

from swiftlet.address import Address
from swiftlet.encoders.encoder import Encoder
from swiftlet.index.lexical.analysis import analysis_of
from swiftlet.index.parts import SearchParts
from swiftlet.manifest import Manifest
from swiftlet.servers.postgres.filters import EVERYTHING
from swiftlet.servers.postgres.parts import (
    DocumentIds,
    PostgresParts,
    PostgresRows,
    PostgresStore,
)
from swiftlet.servers.postgres.table import State, Table
from swiftlet.servers.postgres.words import PostgresWords


class PostgresIndex:
    """The parts of an index as it is now; `refresh` follows it. Not thread-safe."""

    keeps_state = False
    seconds_between_looks = 1.0

    def __init__(self, address: Address, encoder: Encoder) -> None:
        """Connect to the server.

        :raises IndexServerError: When the server does not answer.
        :raises InvalidArgumentError: When there is no such table, it was not made by Swiftlet or
            not completely, or the server refuses.
        """
        self._table, self._encoder = Table(address), encoder
        self._open(self._table.seen())

    @property
    def state(self) -> tuple[SearchParts, Manifest, int, str]:
        """As `IndexSource.state`."""
        made, state = self._seen
        name = f"{self._manifest.short_fingerprint}.{made}.{state.change}"
        return self._parts, self._manifest, state.change, name

    def refresh(self) -> bool:
        """As `IndexSource.refresh`."""
        if (seen := self._table.seen()) == self._seen:
            return False
        self._open(seen)
        return True

    def close(self) -> None:
        """As `IndexSource.close`."""

    def _open(self, seen: tuple[int, State]) -> None:
        _, state = seen
        self._manifest = state.manifest_at(self._table.address)
        self._table.use(state.ef_search)
        words = None
        if state.mean_length is not None:
            analysis = analysis_of(self._manifest.details["language"])
            words = PostgresWords(self._table, analysis, state.num_passages, EVERYTHING)
        ids, size = DocumentIds(self._table), state.num_passages
        self._parts = PostgresParts(
            encoder=self._encoder,
            index=PostgresRows(self._table, ids, size, EVERYTHING, state.graph_width),
            passage_to_document=ids,
            store=PostgresStore(self._table, state),
            lexical=words,
            table=self._table,
            state=state,
        )
        self._seen, self._table.is_open = seen, True
