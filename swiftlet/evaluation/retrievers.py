"""What an evaluation searches: an open index, or a running service."""

from typing import TYPE_CHECKING, Any, Protocol

from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.function import FunctionEncoder
from swiftlet.errors import InvalidArgumentError, UnknownDocumentError
from swiftlet.index.documents.passages import encoder_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swiftlet.search.client import Client
    from swiftlet.search.searcher import Searcher
    from swiftlet.types import Embeddings


class Retriever(Protocol):
    """Finds documents. Thread-safe."""

    def retrieve(self, query: str, top_k: int) -> list[tuple[str, float]]:
        """(document_id, score) of at most `top_k` documents, best first."""
        ...

    def holds(self, document_id: str) -> bool:
        """Whether the document is in the index."""
        ...


class SearcherRetriever:
    """Finds documents with a searcher, or with the client of a service."""

    def __init__(
        self,
        searcher: "Searcher | Client",
        embeddings: "Mapping[str, Embeddings] | None" = None,
        **fields: Any,
    ) -> None:
        """Search with `fields`, further fields of `SearchRequest`.

        :param embeddings: Of each query (dim,), if they are made already.
        """
        self._searcher = searcher
        self._embeddings = embeddings
        self._fields = fields

    def retrieve(self, query: str, top_k: int) -> list[tuple[str, float]]:
        """(document_id, score) of the min(top_k, number of documents) best documents.

        :raises QueryError: When the query cannot be searched.
        :raises ServiceError: When the service is out of reach, too busy, or refuses the query.
        """
        embedding = None if self._embeddings is None else self._embeddings[query]
        fields = self._fields if embedding is None else {**self._fields, "embedding": embedding}
        found = self._searcher.search(query, top_k, include_text=False, **fields)
        is_ordered = self._fields.get("sort") or found.num_reranked
        if not is_ordered and all(hit.boosted_score is None for hit in found.hits):
            return [(hit.document_id, hit.score) for hit in found.hits]
        # Metrics order documents by score, and the scores of hits lack this order.
        return [(hit.document_id, 1 / rank) for rank, hit in enumerate(found.hits, start=1)]

    def holds(self, document_id: str) -> bool:
        """Whether the index has the document.

        :raises ServiceError: When the service is out of reach, or not a Swiftlet service.
        """
        try:
            self._searcher.document(document_id)
        except UnknownDocumentError:
            return False
        return True

    def num_tokens(self, document_id: str) -> int:
        """The tokens of a whole document, with its title, by the tokenizer of the query encoder.

        :raises UnknownDocumentError: When the index does not have it.
        :raises InvalidArgumentError: When the encoder has no tokenizer, as a service's.
        """
        encoder = getattr(self._searcher, "encoder", None)
        if not isinstance(encoder, OnnxEncoder | FunctionEncoder):
            raise InvalidArgumentError("lengths in tokens need an encoder with a tokenizer")
        document: Any = self._searcher.document(document_id)
        return encoder.tokenizer.count(encoder_text(document.title, document.text))
