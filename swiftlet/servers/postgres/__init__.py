"""The plugin for PostgreSQL servers with pgvector."""

from swiftlet.address import NAME, NAME_CHARACTERS, ServerPlugin

PLUGIN = ServerPlugin(
    schemes=("postgresql",),
    # A server cuts names off after 63 bytes; names of indexes are longer than table names.
    path=rf"/(?P<database>[A-Za-z0-9_-]{{1,63}})/(?P<collection>{NAME}{{0,39}})",
    shape="postgresql://HOST:PORT/DATABASE/TABLE",
    details="such as postgresql://localhost:5432/library/papers, with a port up to 65535 and a "
    f"table of at most 40 {NAME_CHARACTERS}",
    module="swiftlet.servers.postgres.server",
    extra="postgres",
)
