"""What is done with indexes on Milvus servers."""

from swiftlet.index.server import Server
from swiftlet.servers.milvus.corpus import MilvusCorpus
from swiftlet.servers.milvus.source import MilvusIndex, describe, manifest_at
from swiftlet.servers.milvus.target import MilvusTarget
from swiftlet.servers.milvus.writer import MilvusWriter

SERVER = Server(
    source=MilvusIndex,
    manifest=manifest_at,
    description=describe,
    writer=MilvusWriter,
    target=MilvusTarget,
    corpus=MilvusCorpus,
)
