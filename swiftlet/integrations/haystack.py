"""A retriever for Haystack; needs the extra `haystack`."""

from pathlib import Path
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from swiftlet.errors import InvalidArgumentError
from swiftlet.integrations.finding import Place, about, opened


@component
class SwiftletRetriever:
    """Retrieves from an index or a service: `SwiftletRetriever("index").run("a question")`.

    Documents are passages, with the id of their document; `meta` has its metadata, title and
    heading.
    """

    def __init__(
        self,
        place: Place,
        key: str = "",
        top_k: int = 5,
        filters: dict[str, Any] | None = None,
        mode: str | None = None,
    ) -> None:
        """Open an index, or name a service, with its search key if it has one.

        :param filters: In Swiftlet's own language.
        :raises RetrievalError: When the index cannot be opened.
        """
        self._searcher = opened(place, key)
        self._place, self._key = place, key
        self._top_k, self._filters, self._mode = top_k, filters, mode

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """The documents for a query; `top_k` and `filters` are used instead of the own ones."""
        found = self._searcher.search(
            query, top_k or self._top_k, filter=filters or self._filters, mode=self._mode
        )
        return {
            "documents": [
                Document(
                    id=hit.document_id, content=hit.passage.text, meta=about(hit), score=hit.score
                )
                for hit in found
            ]
        }

    def to_dict(self) -> dict[str, Any]:
        """What `from_dict` makes the same retriever of, without the key.

        :raises InvalidArgumentError: When it was given an open searcher.
        """
        if not isinstance(self._place, str | Path):
            raise InvalidArgumentError(
                "a retriever of an open searcher cannot be saved: give it the index's path"
            )
        fields = {"top_k": self._top_k, "filters": self._filters, "mode": self._mode}
        found: dict[str, Any] = default_to_dict(self, place=str(self._place), **fields)
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "SwiftletRetriever":
        """The retriever that `to_dict` has described."""
        found: SwiftletRetriever = default_from_dict(cls, data)
        return found
