"""Encoders from a server that speaks the protocol of the Hugging Face hub."""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest
import uvicorn
from fastapi import FastAPI, HTTPException, Response

from swiftlet.encoders import LOOKUP_QUERY_ENCODER

Swiftlet = Callable[..., subprocess.CompletedProcess[str]]


class Hub:
    """The routes that a download needs; files are kept in memory."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        app = FastAPI()
        app.get("/api/models/{owner}/{name}/revision/main")(self.info)
        file = "/{owner}/{name}/resolve/{sha}/{path:path}"
        app.api_route(file, methods=["GET", "HEAD"])(self.get)
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    async def info(self, owner: str, name: str) -> dict[str, Any]:
        found = self.files.get(f"{owner}/{name}")
        if found is None:
            raise HTTPException(404, headers={"X-Error-Code": "RepoNotFound"})
        siblings = [{"rfilename": path} for path in found]
        return {"id": f"{owner}/{name}", "sha": "0" * 40, "siblings": siblings}

    async def get(self, owner: str, name: str, path: str) -> Response:
        content = self.files[f"{owner}/{name}"][path]
        etag = hashlib.sha256(content).hexdigest()
        return Response(content, headers={"ETag": f'"{etag}"', "X-Repo-Commit": "0" * 40})


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub() as running:
        yield running


@pytest.fixture
def swiftlet(hub, tmp_path) -> Swiftlet:
    """Runs a command with the stand-in as its hub."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        places = {"HF_ENDPOINT": hub.address, "HF_HOME": f"{tmp_path / 'hf'}",
                  "XDG_CACHE_HOME": f"{tmp_path / 'cache'}"}  # fmt: skip
        return subprocess.run(
            [sys.executable, "-m", "swiftlet", *map(str, arguments)],
            env={**os.environ, **places, "COLUMNS": "500", "NO_COLOR": "1"},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return run


@pytest.mark.check
def test_an_encoder_of_the_hub_is_found_by_its_name(hub, swiftlet, tmp_path):
    files = {path.name: path.read_bytes() for path in LOOKUP_QUERY_ENCODER.iterdir()}
    hub.files["owner/look-up"] = files
    fetched = swiftlet("encoders", "get", "owner/look-up")
    assert fetched.returncode == 0, fetched.stderr
    (tmp_path / "corpus.jsonl").write_text('{"_id": "sea", "text": "Waves break."}\n')
    built = swiftlet("index", tmp_path / "corpus.jsonl", "--encoder", "look-up",
                     "--out", tmp_path / "index")  # fmt: skip
    assert built.returncode == 0, built.stderr
    found = swiftlet("search", tmp_path / "index", "the sea")
    assert "Waves break." in found.stdout


@pytest.mark.check
def test_what_is_no_encoder_or_cannot_be_found_is_named(hub, swiftlet, tmp_path):
    files = {path.name: path.read_bytes() for path in LOOKUP_QUERY_ENCODER.iterdir()}
    hub.files |= {
        "owner/model": {"README.md": b"", "modules.json": b"[]"},
        "owner/damaged": {**files, "tokenizer.json": b"{}"},
    }
    for name, problem in (
        ("owner/model", "exported: run swiftlet export owner/model --out"),
        ("owner/damaged", "tokenizer.json"),
        ("nobody/nothing", "the hub refuses nobody/nothing"),
        ("e6", "is 'e6'; OWNER/NAME on the hub is expected"),
        ("a b/c", "is 'a b/c'; OWNER/NAME is expected"),
    ):
        refused = swiftlet("encoders", "get", name)
        assert refused.returncode == 2
        assert "Traceback" not in refused.stderr
        assert problem in refused.stderr
    assert not [*(tmp_path / "cache" / "swiftlet" / "encoders").glob("*/manifest.json")]
