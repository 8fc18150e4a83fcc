"""The plugin for Milvus servers."""

from swiftlet.address import NAME, NAME_CHARACTERS, ServerPlugin

PLUGIN = ServerPlugin(
    schemes=("milvus", "milvus+tls"),
    path=rf"(?:/(?P<database>{NAME}{{0,254}}))?/(?P<collection>{NAME}{{0,254}})",
    shape="milvus://HOST:PORT/COLLECTION",
    details="such as milvus://localhost:19530/papers, with a port up to 65535 and a name of at "
    f"most 255 {NAME_CHARACTERS}",
    module="swiftlet.servers.milvus.server",
    extra="milvus",
)
