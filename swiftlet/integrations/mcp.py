"""An index as tools of the Model Context Protocol, for programs with a language model."""

from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket
from threading import Lock
from time import monotonic
from typing import Annotated, Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

import swiftlet
from swiftlet.errors import RetrievalError
from swiftlet.search.context import cut, num_tokens
from swiftlet.search.request import MOST_TOKENS, Mode
from swiftlet.search.searcher import Searcher
from swiftlet.types import Hit

MOST_RESULTS = 50
_SIMILAR_CHARACTERS, _TOKENS_OF_MORE = 1_000, 8
_ROOM = 1_000  # tokens, more than the name and the lines of an excerpt have
_INSTRUCTIONS = """Searches a collection of documents by meaning and by words. Search first: the
excerpts that are found often have the answer. They name their documents, which get_document reads.
Cite documents by their ids, with the lines.
"""

TopK = Annotated[int, Field(description=f"How many documents, 1 to {MOST_RESULTS}.")]
Budget = Annotated[
    int, Field(description=f"About the most tokens of the answer, up to {MOST_TOKENS}.")
]
Filter = Annotated[
    dict[str, Any] | None,
    Field(
        description='Only documents with such metadata, as in {"year": {"gte": 2020}} or '
        '{"kind": ["book", "paper"]}.'
    ),
]
Boost = Annotated[
    dict[str, Any] | list[dict[str, Any]] | None,
    Field(
        description="What documents gain by their metadata, as recent ones do by "
        '{"field": "modified", "half_life_days": 30, "weight": 0.1}.'
    ),
]
Sort = Annotated[
    str | None,
    Field(
        description="The order of what answers, by a field of the metadata and a direction, as in "
        "modified:desc; by how well it answers if left out."
    ),
]
Text = Annotated[str, Field(description="A question or some words.")]
SearchMode = Annotated[
    Mode | None, Field(description="By meaning (dense), by words (lexical), or both (hybrid).")
]
DocumentId = Annotated[str, Field(description="The id of a document, as results name it.")]


def mcp_server(searcher: Searcher) -> MCPServer[Any]:
    """The tools `search`, `get_document` and `similar` over an index, as a server to run."""
    server: MCPServer[Any] = MCPServer(
        "swiftlet", instructions=_INSTRUCTIONS, version=swiftlet.__version__, log_level="WARNING"
    )
    tools = _Tools(searcher)
    annotations = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (tools.search, tools.get_document, tools.similar):
        server.add_tool(tool, annotations=annotations, structured_output=False)
    return server


def serve_http(searcher: Searcher, host: str, listeners: list[socket]) -> None:
    """Serve the tools over HTTP on sockets that listen on `host`, until Ctrl-C."""
    tools = mcp_server(searcher).streamable_http_app(host=host)
    # Its own settings of logs would make a service beside it print each request.
    uvicorn.Server(uvicorn.Config(tools, log_config=None)).run(listeners)


class _Tools:
    """What a model calls. Answers are texts for its context, within a number of tokens."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self._looking = Lock()
        self._looked = monotonic()

    def search(
        self,
        query: Text,
        top_k: TopK = MOST_RESULTS,
        filter: Filter = None,  # noqa: A002 - as in `Searcher.search`
        mode: SearchMode = None,
        offset: Annotated[int, Field(description="How many documents to skip.")] = 0,
        max_tokens: Budget = 2_000,
        boost: Boost = None,
        sort: Sort = None,
    ) -> str:
        """Find what answers: excerpts of the best documents, with their ids and lines."""
        _check(top_k, max_tokens, ": go on with offset")
        searcher = self._current()
        with _sentences():
            found = searcher.context(
                query,
                max(1, max_tokens - _TOKENS_OF_MORE),
                top_k,
                mode=mode,
                filter=filter,
                offset=offset,
                boost=boost,
                sort=sort,
            )
        if not found.excerpts:
            room = f", or no room for one in {max_tokens} tokens" * (max_tokens < _ROOM)
            return f"No documents {f'from offset {offset:,} on' if offset else 'found'}{room}."
        following = offset + len(found.document_ids)
        more = f"\n\n[More: offset={following}]" if following < searcher.num_documents else ""
        return f"{found.text}{more}"

    def get_document(
        self,
        document_id: DocumentId,
        start: Annotated[int, Field(description="The character to begin with.")] = 0,
        max_tokens: Budget = 4_000,
    ) -> str:
        """Read a document from a character on; the answer says how to read on."""
        _check(1, max_tokens)
        with _sentences():
            document = self._current().document(document_id)
        if not 0 <= start <= len(document.text):
            raise ToolError(
                f"start is {start:,}, but 0 to {len(document.text):,} is expected, the length of "
                "the document"
            )
        title = f"{document.title}\n" if document.title else ""
        metadata = "".join(f"{name}: {value}\n" for name, value in document.metadata.items())
        head = cut(f"{title}{metadata}", max_tokens // 2)
        more = "" if head == f"{title}{metadata}" else " …\n"
        text = document.text[start:]
        part = cut(text, max_tokens - num_tokens(head))
        rest = "" if part == text else f"\n\n[The rest begins at start={start + len(part)}.]"
        return f"{head}{more}[{document_id}]\n\n{part}{rest}"

    def similar(self, document_id: DocumentId, top_k: TopK = 5, max_tokens: Budget = 2_000) -> str:
        """Find other documents that are like a document, by meaning."""
        _check(top_k, max_tokens)
        searcher = self._current()
        with _sentences():
            document = searcher.document(document_id)
            query = f"{document.title} {document.text}"[:_SIMILAR_CHARACTERS].replace("\0", " ")
            if not query.strip():
                raise ToolError(f"{document_id} has no text, so nothing is like it")
            found = searcher.search(query, top_k + 1, mode="dense")
        others = [hit for hit in found.hits if hit.document_id != document_id]
        return _shown(others[:top_k], max_tokens)

    def _current(self) -> Searcher:
        """The searcher, with the changes that other programs have made."""
        with self._looking:
            if monotonic() - self._looked >= self._searcher.seconds_between_looks:
                with _sentences():
                    self._searcher.refresh()
                self._looked = monotonic()
        return self._searcher


def _shown(hits: list[Hit], max_tokens: int) -> str:
    """The hits within the number of tokens."""
    blocks: list[str] = []
    left = max_tokens
    for number, hit in enumerate(hits, start=1):
        heading = f" > {hit.passage.heading}" if hit.passage.heading else ""
        name = cut(f"{hit.title}{heading}", max_tokens // 2)
        parts = f"{number}.", name, f"[{hit.document_id}]", f"(score {hit.score:.3f})"
        head = " ".join(filter(None, parts))
        text = " ".join(hit.passage.text.split())
        left -= num_tokens(f"{head}\n{text}")
        if left < 0 and blocks:
            blocks.append(f"[{len(hits) - len(blocks)} more]")
            break
        blocks.append(f"{head}\n{cut(text, max_tokens - num_tokens(head))}")
    return "\n\n".join(blocks) or "No documents found."


@contextmanager
def _sentences() -> Iterator[None]:
    """Give a model the one sentence of a refusal.

    :raises ToolError: With that sentence.
    """
    try:
        yield
    except RetrievalError as error:
        raise ToolError(f"{error}") from error


def _check(top_k: int, max_tokens: int, way_out: str = "") -> None:
    """Refuse numbers out of range.

    :raises ToolError: When there is one.
    """
    if not 1 <= top_k <= MOST_RESULTS:
        raise ToolError(f"top_k is {top_k}, but 1 to {MOST_RESULTS} is expected{way_out}")
    if not 1 <= max_tokens <= MOST_TOKENS:
        raise ToolError(f"max_tokens is {max_tokens}, but 1 to {MOST_TOKENS:,} is expected")
