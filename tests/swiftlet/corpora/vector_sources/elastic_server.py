"""A stand-in for Elasticsearch and OpenSearch: the answers that were recorded, over HTTP."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit


@contextmanager
def elastic_server(
    documents: list[dict[str, Any]],
    mapping: dict[str, Any],
    *,
    name: str = "docs",
    version: dict[str, Any] | None = None,
    authorization: str = "",
    excluded: str = "",
    fails_after: int | None = None,
) -> Iterator[tuple[str, list[str]]]:
    """A server with the index `name`; its address, and the scrolls that are open.

    :param excluded: A field that answers leave out unless they are asked for vectors.
    :param fails_after: The number of hits after which it answers 429.
    """
    open_scrolls: list[str] = []
    asked: dict[str, tuple[int, int, bool]] = {}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if authorization and self.headers["Authorization"] != authorization:
                self._answer({"error": "security_exception"}, 401)
            elif path == "/":
                self._answer({"version": version or {"number": "8.19.0"}})
            elif path == f"/{name}/_mapping":
                self._answer({"docs-000001": {"mappings": mapping}})
            elif path == f"/{name}/_count":
                self._answer({"count": len(documents), "_shards": {"total": 1}})
            else:
                self._answer({"error": {"type": "index_not_found_exception"}, "status": 404}, 404)

        def do_POST(self) -> None:
            body = self._body()
            if urlsplit(self.path).path == "/_search/scroll":
                start, size, all_fields = asked[body["scroll_id"]]
                scroll = body["scroll_id"]
            else:
                start, size, scroll = 0, body["size"], f"scroll{len(asked)}"
                all_fields = body.get("_source") == {"exclude_vectors": False}
                open_scrolls.append(scroll)
            if fails_after is not None and start >= fails_after:
                self._answer({"error": {"type": "circuit_breaking_exception"}}, 429)
                return
            asked[scroll] = (start + size, size, all_fields)
            hits = [
                {"_index": "docs-000001", "_id": each["_id"], "sort": [number], "_source": {
                    field: value for field, value in each.items()
                    if field != "_id" and (all_fields or field != excluded)
                }}
                for number, each in enumerate(documents[start : start + size], start)
            ]  # fmt: skip
            self._answer({"_scroll_id": scroll, "timed_out": False, "hits": {"hits": hits}})

        def do_DELETE(self) -> None:
            open_scrolls.remove(self._body()["scroll_id"])
            self._answer({"succeeded": True, "num_freed": 1})

        def _body(self) -> Any:
            return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, answer: object, status: int = 200) -> None:
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", f"{len(content)}")
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", open_scrolls
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
