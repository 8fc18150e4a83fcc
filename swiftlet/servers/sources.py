"""What is pushed to a server: an index with its changes, or the shards of a corpus."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path

import numpy as np

from swiftlet.index.building.shards import Shards
from swiftlet.index.changes.log import Changes
from swiftlet.index.contents import Contents
from swiftlet.index.documents.split import SplitDocument
from swiftlet.index.lexical.analysis import ANALYSIS, VERSION, check_language
from swiftlet.manifest import Manifest, load_manifest
from swiftlet.types import Embeddings


@dataclass(frozen=True, slots=True)
class Source:
    """What is pushed: documents, and the embeddings (dim,) of all their passages.

    `identity` changes with them. One of the documents must have each of the `new_facets`.
    """

    manifest: Manifest
    identity: str
    documents: Callable[[], Iterator[SplitDocument]]
    embeddings: Callable[[], Iterator[Embeddings]]
    new_facets: Sequence[str] = ()

    def encoded(self, done: int = 0) -> Iterator[tuple[SplitDocument, Embeddings]]:
        """The documents after the first `done` passages, with the embeddings (n, dim) of theirs."""
        embeddings = islice(self.embeddings(), done, None)
        for document in self.documents():
            count = len(document.passages)
            if done > 0:
                done -= count
            else:
                yield document, np.stack([*islice(embeddings, count)])


def source_of(index: Path | Shards, language: str | None, facets: Sequence[str]) -> Source:
    """An index directory, or shards with the words of a language and facets.

    :raises ArtefactError: When it is damaged.
    :raises InvalidArgumentError: When the language is unknown.
    """
    return _shards(index, language, facets) if isinstance(index, Shards) else _index(index)


def _index(index: Path) -> Source:
    manifest = load_manifest(index, "index")
    with closing(Changes(index, manifest)) as changes:
        last = changes.last()

    def documents() -> Iterator[SplitDocument]:
        return Contents(index, manifest, last).documents()

    def embeddings() -> Iterator[Embeddings]:
        contents = Contents(index, manifest, last)
        deque(contents.documents(), maxlen=0)  # the embeddings follow the documents
        return chain.from_iterable(contents.embeddings())

    return Source(manifest, f"{manifest.fingerprint} {last}", documents, embeddings)


def _shards(shards: Shards, language: str | None, facets: Sequence[str]) -> Source:
    if language is not None:
        check_language(language)
    words = {} if language is None else {"language": language, ANALYSIS: VERSION}
    manifest = Manifest(
        kind="index",
        dim=shards.dim,
        embedding_space=shards.embedding_space,
        files={},
        created_by=f"swiftlet {version('swiftlet-retrieval')}",
        details={**shards.details, **words, "facets": list(dict.fromkeys(facets))},
    )

    def embeddings() -> Iterator[Embeddings]:
        return chain.from_iterable(shards.embeddings())

    return Source(manifest, shards.identity, shards.documents, embeddings, facets)
