"""A retriever for LangChain; needs the extra `langchain`."""

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, PrivateAttr

from swiftlet.integrations.finding import Place, about, opened
from swiftlet.search.client import Client
from swiftlet.search.searcher import Searcher


class SwiftletRetriever(BaseRetriever):
    """Retrieves from an index or a service: `SwiftletRetriever("index").invoke("a question")`.

    Documents are passages, with the `id` of their document; `metadata` has its metadata, title,
    heading and score.
    """

    model_config = ConfigDict(extra="forbid")

    k: int = 5
    filter: dict[str, Any] | None = None
    mode: str | None = None
    _searcher: Searcher | Client = PrivateAttr()

    def __init__(self, place: Place, *, key: str = "", **fields: Any) -> None:
        """Open an index, or name a service, with its search key if it has one.

        :param fields: The fields above, and LangChain's own, such as `tags`.
        :raises RetrievalError: When the index cannot be opened.
        """
        super().__init__(**fields)
        self._searcher = opened(place, key)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002
    ) -> list[Document]:
        found = self._searcher.search(query, self.k, filter=self.filter, mode=self.mode)
        return [
            Document(
                hit.passage.text, id=hit.document_id, metadata={**about(hit), "score": hit.score}
            )
            for hit in found
        ]
