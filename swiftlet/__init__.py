"""Swiftlet: Search by meaning and by words on ordinary CPUs.

    import swiftlet

    swiftlet.build("corpus.jsonl", "index")
    with swiftlet.open("index") as searcher:
        print(searcher.search("how do volcanoes erupt?", top_k=5))

Each name is imported when it is first used, so `import swiftlet` loads no other package.
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers take it: typing itself would take most of the import

if TYPE_CHECKING:
    from swiftlet.corpora.lines import SkippedLines
    from swiftlet.encoders.encoder import OnnxEncoder, load_encoder
    from swiftlet.errors import (
        ArtefactError,
        CollectionError,
        CorruptArtefactError,
        EmbeddingSpaceMismatch,
        FilterError,
        IndexServerError,
        InvalidArgumentError,
        ManifestError,
        MissingExtraError,
        QueryError,
        RetrievalError,
        StorageError,
        UnknownDocumentError,
    )
    from swiftlet.evaluation.evaluate import evaluate
    from swiftlet.evaluation.fidelity import fidelity
    from swiftlet.evaluation.weight import reset_weight, set_weight, tune
    from swiftlet.index.building.adopt import adopt
    from swiftlet.index.building.build import build
    from swiftlet.index.building.shards import Shards, encode
    from swiftlet.index.snapshot import snapshot
    from swiftlet.index.synonyms import set_synonyms
    from swiftlet.index.updates.directory_writer import IndexWriter, write
    from swiftlet.index.updates.writer import Changed
    from swiftlet.index.vectors_export import export_vectors
    from swiftlet.progress import ProgressLine
    from swiftlet.search.client import AsyncClient, Client
    from swiftlet.search.opening import open_searcher as open  # noqa: A004 - as swiftlet.open
    from swiftlet.search.searcher import Searcher
    from swiftlet.servers.pull import pull
    from swiftlet.servers.push import push
    from swiftlet.types import Document, Hit, Passage, Query, SearchResult

    __version__: str

__all__ = [
    "ArtefactError",
    "AsyncClient",
    "Changed",
    "Client",
    "CollectionError",
    "CorruptArtefactError",
    "Document",
    "EmbeddingSpaceMismatch",
    "FilterError",
    "Hit",
    "IndexServerError",
    "IndexWriter",
    "InvalidArgumentError",
    "ManifestError",
    "MissingExtraError",
    "OnnxEncoder",
    "Passage",
    "ProgressLine",
    "Query",
    "QueryError",
    "RetrievalError",
    "SearchResult",
    "Searcher",
    "Shards",
    "SkippedLines",
    "StorageError",
    "UnknownDocumentError",
    "adopt",
    "build",
    "encode",
    "evaluate",
    "export_vectors",
    "fidelity",
    "load_encoder",
    "open",
    "pull",
    "push",
    "reset_weight",
    "set_synonyms",
    "set_weight",
    "snapshot",
    "tune",
    "write",
]

_MODULES = {
    "swiftlet.search.client": ("AsyncClient", "Client"),
    "swiftlet.corpora.lines": ("SkippedLines",),
    "swiftlet.encoders.encoder": ("OnnxEncoder", "load_encoder"),
    "swiftlet.evaluation.evaluate": ("evaluate",),
    "swiftlet.evaluation.fidelity": ("fidelity",),
    "swiftlet.evaluation.weight": ("reset_weight", "set_weight", "tune"),
    "swiftlet.index.building.adopt": ("adopt",),
    "swiftlet.index.building.build": ("build",),
    "swiftlet.index.building.shards": ("Shards", "encode"),
    "swiftlet.index.snapshot": ("snapshot",),
    "swiftlet.index.synonyms": ("set_synonyms",),
    "swiftlet.index.updates.directory_writer": ("IndexWriter", "write"),
    "swiftlet.index.updates.writer": ("Changed",),
    "swiftlet.index.vectors_export": ("export_vectors",),
    "swiftlet.progress": ("ProgressLine",),
    "swiftlet.search.opening": ("open",),
    "swiftlet.search.searcher": ("Searcher",),
    "swiftlet.servers.pull": ("pull",),
    "swiftlet.servers.push": ("push",),
    "swiftlet.types": ("Document", "Hit", "Passage", "Query", "SearchResult"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_OTHER_NAMES = {"open": "open_searcher"}


def __getattr__(name: str) -> object:
    """Import a public name, or look the version up, when it is first used."""
    if name == "__version__":
        found = globals()[name] = import_module("importlib.metadata").version("swiftlet-retrieval")
        return found
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_MODULE_OF.get(name, "swiftlet.errors"))
    value = globals()[name] = getattr(module, _OTHER_NAMES.get(name, name))
    return value


def __dir__() -> list[str]:
    """The public names."""
    return __all__
