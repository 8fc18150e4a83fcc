"""What is done with indexes on PostgreSQL servers."""

from swiftlet.index.server import Server
from swiftlet.servers.postgres.corpus import PostgresCorpus
from swiftlet.servers.postgres.source import PostgresIndex, describe, manifest_at
from swiftlet.servers.postgres.target import PostgresTarget
from swiftlet.servers.postgres.writer import PostgresWriter

SERVER = Server(
    source=PostgresIndex,
    manifest=manifest_at,
    description=describe,
    writer=PostgresWriter,
    target=PostgresTarget,
    corpus=PostgresCorpus,
)
