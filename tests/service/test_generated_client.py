"""A client that a generator makes from the served OpenAPI document alone."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

PACKAGE = "generated_client_of_swiftlet"
TEXTS = ["how is bread baked", "Märchen ❄"]
CHOSEN = {"topic": ["bread", "bees"], "length": {"gte": 8}}


@pytest.fixture(scope="module", autouse=True)
def package(locked_server, tmp_path_factory) -> Iterator[None]:
    """The generated package, which can be imported; a warning of the generator is an error."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "config.yaml").write_text("post_hooks: []\n")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning"]
    command += ["--url", f"{locked_server.url}/openapi.json", "--config", folder / "config.yaml"]
    command += ["--meta", "none", "--output-path", folder / PACKAGE]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]


def operation(name: str) -> Any:
    return import_module(f"{PACKAGE}.api.default.{name}")


def model(name: str) -> Any:
    return getattr(import_module(f"{PACKAGE}.models"), name)


def client_with(server: Any, key: str) -> Any:
    return import_module(PACKAGE).AuthenticatedClient(server.url, key)


@pytest.fixture(scope="module")
def searching(locked_server, package) -> Any:
    return client_with(locked_server, locked_server.settings["search_keys"])


def read(answer: Any, kind: str, status: int = 200) -> Any:
    """The parsed answer, which must have exactly the fields that were sent."""
    assert (answer.status_code, type(answer.parsed)) == (status, model(kind))
    assert answer.parsed.to_dict() == json.loads(answer.content)
    return answer.parsed


@pytest.mark.parametrize(
    ("name", "asked", "kind"),
    [
        ("search", {"query": TEXTS[0], "top_k": 3, "filter": CHOSEN}, "Search"),
        ("search_by_link", {"q": TEXTS[0], "include_text": False, "timeout_ms": 4000}, "Search"),
        ("search_by_link", {"q": TEXTS[1], "filter_": json.dumps(CHOSEN)}, "Search"),
        ("search_batch", {"queries": TEXTS, "top_k": 2}, "Batch"),
        ("embeddings", {"input": TEXTS}, "Embedding"),
        ("embeddings", {"input": TEXTS[0], "encoding_format": "base64"}, "Embedding"),
        ("facets", {"filter_": json.dumps(CHOSEN)}, "Facets"),
        ("document", {"document_id": "tides-2"}, "Document"),
        ("suggest", {"q": "volc"}, "Suggest"),
        ("models", {}, "Models"),
        ("info", {}, "Info"),
    ],
)
def test_every_answer_is_read_as_it_is(searching, name, asked, kind):
    if {"query", "queries", "input"} & asked.keys():
        asked = {"body": model(f"{kind}Request").from_dict(asked)}
    answer = operation(name).sync_detailed(client=searching, **asked)
    read(answer, "EmbeddingsAnswer" if kind == "Embedding" else f"{kind}Answer")


def test_it_watches(locked_server):
    keyless = import_module(PACKAGE).Client(locked_server.url)
    for name in ("live", "ready"):
        read(operation(name).sync_detailed(client=keyless), "HealthAnswer")
    assert "swiftlet_requests_total" in operation("metrics").sync(client=keyless)
    assert operation("docs").sync(client=keyless).startswith("<!doctype html>")


def test_it_waits_without_blocking(searching):
    async def search() -> Any:
        body = model("SearchRequest").from_dict({"query": TEXTS[0], "filter": CHOSEN})
        return await operation("search").asyncio_detailed(client=searching, body=body)

    hits = read(asyncio.run(search()), "SearchAnswer").hits
    assert sorted(hit.metadata["topic"] for hit in hits) == ["bees", "bees", "bread", "bread"]


def test_it_understands_refusals(searching):
    body = model("SearchRequest")(query=TEXTS[0], top_k=0)
    answer = operation("search").sync_detailed(client=searching, body=body)
    problem = read(answer, "Problem", 422)
    assert problem.field == "top_k"
    assert problem.detail == "top_k is 0; a whole number from 1 to 1000 is expected"
    body = model("BatchRequest")(queries=["a"] * 65)
    read(operation("search_batch").sync_detailed(client=searching, body=body), "Problem", 413)
    missing = operation("document").sync_detailed("no/such?", client=searching)
    assert read(missing, "Problem", 404).detail == "no document has the id 'no/such?'"


def test_it_sends_its_key(locked_server, searching):
    admin = client_with(locked_server, locked_server.settings["admin_keys"])
    wrong = client_with(locked_server, "another-key-altogether")
    keyless = import_module(PACKAGE).Client(locked_server.url)
    search, reload = operation("search_by_link"), operation("reload")
    for client, status in ((keyless, 401), (wrong, 403), (admin, 403)):
        read(search.sync_detailed(client=client, q="a"), "Problem", status)
    body = model("ReloadRequest")()
    for client, status in ((keyless, 401), (wrong, 403), (searching, 403)):
        read(reload.sync_detailed(client=client, body=body), "Problem", status)
    assert read(reload.sync_detailed(client=admin), "ReloadAnswer").num_documents == 60
    assert read(reload.sync_detailed(client=admin, body=body), "ReloadAnswer").num_passages
