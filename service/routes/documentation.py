"""The page /docs, drawn from /openapi.json, with a form to try each route.

FastAPI's own pages load their scripts from another host, which a closed network does not reach.
"""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic_core import to_json

from service.wire.body import beside_loop
from service.wire.openapi import problems
from service.wire.problems import PROBLEMS

_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Swiftlet: routes</title>
<style>
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
  overflow-wrap: break-word }
h2 { margin-top: 2.5rem; border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent) }
table { border-collapse: collapse }
td, th { padding: .15rem 1rem .15rem 0; text-align: left; vertical-align: top }
td:nth-child(2) { overflow-wrap: anywhere }
label { display: block; margin: .5rem 0 }
input, textarea { font: .875rem monospace; box-sizing: border-box; width: 100% }
output { display: block; font: .875rem/1.4 monospace; white-space: pre-wrap; margin-top: .5rem;
  overflow-wrap: anywhere; max-height: 24rem; overflow-y: auto }
</style>
<script type="module" src="page/try.js"></script>
"""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
BODIES: dict[str, dict[str, Any]] = {
    "/search": {"query": "how is bread baked?", "top_k": 3},
    "/search/batch": {"queries": ["how is bread baked?", "who makes honey?"], "top_k": 3},
    "/v1/embeddings": {"input": "how is bread baked?"},
    "/rerank": {"query": "how is bread baked?", "documents": ["Flour rises.", "Bees make honey."]},
    "/documents": {"documents": [{"_id": "bread", "text": "Flour, water and yeast rise."}]},
    "/documents/delete": {"ids": ["bread"]},
    "/admin/reload": {},
}
"""The bodies with which the forms begin, by the path of their route."""


def documentation_router(app: FastAPI) -> APIRouter:
    """The OpenAPI document of `app`, and the page /docs drawn from it."""
    router = APIRouter()

    @router.get("/openapi.json", response_class=JSONResponse, responses=problems(ready=False))
    async def openapi(request: Request) -> JSONResponse:
        """Give this document."""
        # Without the name of a prefix, routes stand beside this one.
        servers = [{"url": request.state.context.prefix or "."}]
        return JSONResponse({**await beside_loop(app.openapi), "servers": servers})

    @router.get("/docs", response_class=HTMLResponse, responses=problems(ready=False))
    async def docs() -> HTMLResponse:
        """Give this document as a page."""
        page = _HEAD + "\n".join(_body(await beside_loop(app.openapi)))
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    return router


def _body(document: dict[str, Any]) -> Iterator[str]:
    info = document["info"]
    yield f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"
    yield f"<p>{escape(info['description'])}"
    yield ' The same for machines: <a href="openapi.json">openapi.json</a>.</p>'
    yield "<label>The key that the forms send, if the service asks for one, kept for this tab"
    yield '<input id="key" type="password" autocomplete="off"></label>'
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f'<h2 id="{escape(operation["operationId"])}">'
            yield f"<code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('description', ''))}</p>"
            for requirement in operation.get("security", []):
                yield f"<p>Needs a key, one of {escape(', '.join(requirement))}.</p>"
            yield from _fields(operation, document["components"]["schemas"])
            yield from _table(
                ("Status", "Meaning"),
                [
                    (status, response["description"])
                    for status, response in sorted(operation["responses"].items())
                ],
            )
            yield from _form(method.upper(), path, operation)
    yield "<h2>Problems</h2>"
    for problem in dict.fromkeys(PROBLEMS.values()):
        yield f'<h3 id="{problem.name}">{problem.name}</h3>'
        yield f"<p>{problem.status}: {escape(problem.title)}.</p>"


def _form(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"<details><summary>Try {method} {escape(path)}</summary>"
    yield f'<form data-method="{method}" data-path="{escape(path)}">'
    for parameter in operation.get("parameters", []):
        name = escape(parameter["name"])
        required = " required" * bool(parameter.get("required"))
        yield f'<label>{name}<input name="{name}" autocomplete="off"{required}></label>'
    if "requestBody" in operation:
        body = escape(json.dumps(BODIES.get(path, {}), indent=2))
        yield f'<label>Body<textarea rows="6" spellcheck="false">{body}</textarea></label>'
    yield "<button>Send</button><output></output></form></details>"


def _fields(operation: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    _, _, name = body.get("schema", {}).get("$ref", "").rpartition("/")
    schema = schemas.get(name, {})
    required = schema.get("required", [])
    fields = [
        (name, field, name in required) for name, field in schema.get("properties", {}).items()
    ]
    fields += [
        (parameter["name"], parameter["schema"], parameter.get("required", False))
        for parameter in operation.get("parameters", [])
    ]
    if fields:
        yield from _table(
            ("Field", "Value", "Default"),
            [
                (
                    name,
                    field.get("description") or field.get("type", ""),
                    "" if required else to_json(field.get("default")).decode(),
                )
                for name, field, required in fields
            ],
        )


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</table>"
