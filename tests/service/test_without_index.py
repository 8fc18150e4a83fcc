import subprocess
import sys
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

import swiftlet
from swiftlet.encoders.opening import open_encoder
from tests.service.conftest import running
from tests.serving import served_by

TEXTS = ["how is bread baked", "ICE ❄ café", "who dances\tfor honey?"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, "-m", "swiftlet", "serve", "--encoder", "all-MiniLM-L6-v2"]
    with served_by([*command, "--port", "0"]) as address:
        yield address


def test_an_encoder_is_served_without_an_index(address, shipped_encoder):
    encoder = open_encoder(f"{address}/v1?model=any&passage_type=passage", "query")
    assert np.allclose(encoder.encode(TEXTS), shipped_encoder.encode(TEXTS), atol=1e-6)
    with httpx.Client(base_url=address) as client:
        for path in ("/health/live", "/health/ready", "/metrics", "/docs", "/v1/models"):
            assert client.get(path).status_code == 200, path
        assert "/v1/embeddings" in (paths := client.get("/openapi.json").json()["paths"])
        assert "/search" not in paths
        for path in ("/search?q=bread", "/documents/a", "/info", "/facets", "/"):
            refused = client.get(path)
            assert refused.status_code == 503, path
            assert "this service has no index" in refused.json()["detail"]
        assert client.post("/search", json={"query": "bread"}).status_code == 503
        assert client.get("/nowhere").status_code == 404


@pytest.mark.check
def test_an_index_is_built_and_served_by_the_encoder_of_another_service(
    address, small_documents, tmp_path
):
    encoder = f"{address}/v1?model=any&query_type=query&passage_type=passage"
    swiftlet.build(small_documents[::5], tmp_path / "index", encoder=encoder)
    key = "a-key-of-16-characters"
    with running(tmp_path / "index", write_keys=key) as service, service.client() as client:
        answer = client.post("/search", json={"query": "who dances for honey?"})
        assert answer.json()["hits"][0]["document_id"] == "bees-1"
        assert "encode" in answer.headers["server-timing"]
        found = client.post("/v1/embeddings", json={"input": "tea"}).json()
        assert len(found["data"][0]["embedding"]) == 384
        written = client.put(
            "/documents",
            json={"documents": [{"_id": "new", "text": "A kettle boils water for tea."}]},
            headers={"Authorization": f"Bearer {key}"},
        )
        assert written.status_code == 200, written.text
        hits = client.post("/search", json={"query": "tea kettle", "mode": "dense"}).json()["hits"]
        assert hits[0]["document_id"] == "new"


def test_a_service_without_index_and_encoder_does_not_start():
    command = [sys.executable, "-m", "swiftlet", "serve"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert refused.returncode == 2
    assert "SWIFTLET_INDEX is not set; the path of an index" in refused.stderr
