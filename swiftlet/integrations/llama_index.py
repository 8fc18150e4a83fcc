"""A retriever for LlamaIndex; needs the extra `llama-index`."""

from collections.abc import Mapping
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from swiftlet.integrations.finding import Place, about, opened


class SwiftletRetriever(BaseRetriever):
    """Retrieves from an index or a service: `SwiftletRetriever("index").retrieve("a question")`.

    Nodes are passages, with the id of their document; `metadata` has its metadata, title and
    heading.
    """

    def __init__(
        self,
        place: Place,
        *,
        key: str = "",
        similarity_top_k: int = 5,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in `Searcher.search`
        mode: str | None = None,
        **options: Any,
    ) -> None:
        """Open an index, or name a service, with its search key if it has one.

        :param options: Those of LlamaIndex, such as `callback_manager`.
        :raises RetrievalError: When the index cannot be opened.
        """
        self._searcher = opened(place, key)
        self._top_k, self._filter, self._mode = similarity_top_k, filter, mode
        super().__init__(**options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query = query_bundle.query_str
        found = self._searcher.search(query, self._top_k, filter=self._filter, mode=self._mode)
        return [
            NodeWithScore(
                node=TextNode(id_=hit.document_id, text=hit.passage.text, metadata=about(hit)),
                score=hit.score,
            )
            for hit in found
        ]
