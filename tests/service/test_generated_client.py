"""A client that a generator makes from the served OpenAPI document alone."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import httpx
import pytest

PACKAGE = "generated_client_of_swiftlet"
TEXTS = ["how is bread baked", "Märchen ❄"]


@pytest.fixture(scope="module", autouse=True)
def package(locked_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
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
def searching(locked_server: Any, package: None) -> Any:
    return client_with(locked_server, locked_server.settings["search_keys"])


@pytest.fixture(scope="module")
def plain(locked_server: Any) -> Iterator[httpx.Client]:
    """Sends requests to the same service without the generated client."""
    headers = {"Authorization": f"Bearer {locked_server.settings['search_keys']}"}
    with httpx.Client(base_url=locked_server.url, headers=headers, timeout=100) as client:
        yield client


def read(answer: Any, kind: str, status: int = 200) -> Any:
    """The parsed answer, which must have exactly the fields that were sent."""
    assert (answer.status_code, type(answer.parsed)) == (status, model(kind))
    assert answer.parsed.to_dict() == json.loads(answer.content)
    return answer.parsed


def test_it_searches_by_body_and_by_link(searching: Any, plain: httpx.Client) -> None:
    body = model("SearchRequest")(query=TEXTS[0], top_k=3)
    by_body = read(operation("search").sync_detailed(client=searching, body=body), "SearchAnswer")
    assert by_body.hits[0].document_id.startswith("bread")
    assert by_body.to_dict() == plain.post("/search", json={"query": TEXTS[0], "top_k": 3}).json()
    link = {"q": TEXTS[0], "top_k": 3, "include_text": False, "timeout_ms": 4000}
    by_link = read(
        operation("search_by_link").sync_detailed(client=searching, **link), "SearchAnswer"
    )
    assert [hit.document_id for hit in by_link.hits] == [hit.document_id for hit in by_body.hits]
    assert not by_link.hits[0].passage.text


def test_it_filters_and_counts(searching: Any, plain: httpx.Client) -> None:
    chosen = {"topic": ["bread", "bees"], "length": {"gte": 8}}
    body = model("SearchRequest").from_dict({"query": TEXTS[0], "filter": chosen})
    by_body = read(operation("search").sync_detailed(client=searching, body=body), "SearchAnswer")
    assert {hit.metadata["topic"] for hit in by_body.hits} == {"bread", "bees"}
    assert len(by_body.hits) == 4
    link = {"q": TEXTS[0], "filter_": json.dumps(chosen)}
    answer = operation("search_by_link").sync_detailed(client=searching, **link)
    assert read(answer, "SearchAnswer").to_dict() == by_body.to_dict()
    answer = operation("facets").sync_detailed(client=searching, filter_=json.dumps(chosen))
    topics = read(answer, "FacetsAnswer").facets["topic"]
    assert [(each.value, each.count) for each in topics] == [("bees", 2), ("bread", 2)]


def test_it_searches_a_batch(searching: Any, plain: httpx.Client) -> None:
    body = model("BatchRequest")(queries=TEXTS, top_k=2)
    answer = read(
        operation("search_batch").sync_detailed(client=searching, body=body), "BatchAnswer"
    )
    assert answer.to_dict() == plain.post("/search/batch", json=body.to_dict()).json()
    assert [len(result.hits) for result in answer.results] == [2, 2]


@pytest.mark.parametrize("given", [TEXTS, TEXTS[0]])
def test_it_embeds(searching: Any, plain: httpx.Client, given: list[str] | str) -> None:
    body = model("EmbeddingRequest")(input_=given)
    answer = operation("embeddings").sync_detailed(client=searching, body=body)
    numbers = read(answer, "EmbeddingsAnswer").data[0].embedding
    by_hand = plain.post("/v1/embeddings", json={"input": given}).json()
    assert numbers == by_hand["data"][0]["embedding"]
    body.encoding_format = model("EmbeddingRequestEncodingFormatType0").BASE64
    answer = operation("embeddings").sync_detailed(client=searching, body=body)
    assert isinstance(read(answer, "EmbeddingsAnswer").data[0].embedding, str)


def test_it_reads_documents_with_any_metadata(searching: Any) -> None:
    answer = operation("document").sync_detailed("tides-2", client=searching)
    document = read(answer, "DocumentAnswer")
    assert (document.title, document.metadata["length"]) == ("Tides 2", 2)


def test_it_watches(locked_server: Any, searching: Any) -> None:
    info = read(operation("info").sync_detailed(client=searching), "InfoAnswer")
    assert (info.encoder.dim, info.index.num_documents) == (384, 60)
    keyless = import_module(PACKAGE).Client(locked_server.url)
    for name in ("live", "ready"):
        read(operation(name).sync_detailed(client=keyless), "HealthAnswer")
    assert "swiftlet_requests_total" in operation("metrics").sync(client=keyless)
    assert operation("docs").sync(client=keyless).startswith("<!doctype html>")


def test_it_waits_without_blocking(searching: Any) -> None:
    async def search() -> Any:
        body = model("SearchRequest")(query=TEXTS[0])
        return await operation("search").asyncio_detailed(client=searching, body=body)

    assert len(read(asyncio.run(search()), "SearchAnswer").hits) == 10


def test_it_understands_refusals(searching: Any) -> None:
    body = model("SearchRequest")(query=TEXTS[0], top_k=0)
    answer = operation("search").sync_detailed(client=searching, body=body)
    problem = read(answer, "Problem", 422)
    assert problem.field == "top_k"
    assert problem.detail == "top_k is 0; a whole number from 1 to 1000 is expected"
    body = model("BatchRequest")(queries=["a"] * 65)
    read(operation("search_batch").sync_detailed(client=searching, body=body), "Problem", 413)
    missing = operation("document").sync_detailed("no/such?", client=searching)
    assert read(missing, "Problem", 404).detail == "no document has the id 'no/such?'"


def test_it_sends_its_key(locked_server: Any, searching: Any) -> None:
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
