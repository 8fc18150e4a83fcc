"""Encoders to and from a server that speaks the protocol of the Hugging Face hub."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response

from swiftlet.encoders import LOOKUP_QUERY_ENCODER

TOKEN = "hf_stand_in"
LARGE_BYTES = 100_000

Swiftlet = Callable[..., subprocess.CompletedProcess[str]]


class Hub:
    """The routes that an upload and a download need; files are kept in memory."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self._objects: dict[str, bytes] = {}
        app = FastAPI()
        app.post("/api/repos/create")(self.create)
        app.post("/api/models/{owner}/{name}/preupload/main")(self.preupload)
        app.post("/{owner}/{name}.git/info/lfs/objects/batch")(self.batch)
        app.put("/objects/{oid}")(self.put)
        app.post("/api/models/{owner}/{name}/commit/main")(self.commit)
        app.get("/api/models/{owner}/{name}/revision/main")(self.info)
        file = "/{owner}/{name}/resolve/{sha}/{path:path}"
        app.api_route(file, methods=["GET", "HEAD"])(self.get)
        app.post("/api/validate-yaml")(lambda: {"errors": [], "warnings": []})
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

    async def create(self, request: Request) -> dict[str, str]:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise HTTPException(401, "Invalid username or password.")
        asked = await request.json()
        name = f"{asked['organization']}/{asked['name']}"
        self.files.setdefault(name, {})
        return {"url": f"{self.address}/{name}", "name": name}

    async def preupload(self, request: Request) -> dict[str, Any]:
        return {
            "files": [
                {
                    "path": each["path"],
                    "uploadMode": "lfs" if each["size"] > LARGE_BYTES else "regular",
                    "shouldIgnore": False,
                }
                for each in (await request.json())["files"]
            ]
        }

    async def batch(self, request: Request) -> Response:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.address}/objects/{each['oid']}"}}}
            for each in (await request.json())["objects"]
        ]
        content = json.dumps({"transfer": "basic", "objects": objects})
        return Response(content, media_type="application/vnd.git-lfs+json")

    async def put(self, oid: str, request: Request) -> None:
        content = await request.body()
        assert hashlib.sha256(content).hexdigest() == oid
        self._objects[oid] = content

    async def commit(self, owner: str, name: str, request: Request) -> dict[str, Any]:
        for line in (await request.body()).splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                content = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                content = self._objects[value["oid"]]
            else:
                continue
            self.files[f"{owner}/{name}"][value["path"]] = content
        return {"commitUrl": f"{self.address}/{owner}/{name}/commit/{'0' * 40}",
                "commitOid": "0" * 40, "success": True}  # fmt: skip

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
def swiftlet(hub: Hub, tmp_path: Path) -> Swiftlet:
    """Runs a command with the stand-in as its hub."""

    def run(*arguments: object, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
        places = {"HF_ENDPOINT": hub.address, "HF_HOME": f"{tmp_path / 'hf'}",
                  "XDG_CACHE_HOME": f"{tmp_path / 'cache'}"}  # fmt: skip
        return subprocess.run(
            [sys.executable, "-m", "swiftlet", *map(str, arguments)],
            env={**os.environ, **places, "HF_TOKEN": token, "COLUMNS": "500", "NO_COLOR": "1"},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return run


@pytest.mark.check
def test_an_encoder_goes_to_the_hub_and_is_found_by_its_name(
    hub: Hub, swiftlet: Swiftlet, tmp_path: Path
) -> None:
    pushed = swiftlet("push-to-hub", LOOKUP_QUERY_ENCODER, "owner/look-up")
    assert pushed.returncode == 0, pushed.stderr
    assert f"{hub.address}/owner/look-up" in pushed.stdout
    uploaded = hub.files["owner/look-up"]
    for path in LOOKUP_QUERY_ENCODER.iterdir():
        assert uploaded[path.name] == path.read_bytes()

    fetched = swiftlet("encoders", "get", "owner/look-up")
    assert fetched.returncode == 0, fetched.stderr
    (tmp_path / "corpus.jsonl").write_text('{"_id": "sea", "text": "Waves break."}\n')
    built = swiftlet("index", tmp_path / "corpus.jsonl", "--encoder", "look-up",
                     "--out", tmp_path / "index")  # fmt: skip
    assert built.returncode == 0, built.stderr
    found = swiftlet("search", tmp_path / "index", "the sea")
    assert "Waves break." in found.stdout


def test_an_encoder_without_a_readme_gets_one_with_its_facts(
    hub: Hub, swiftlet: Swiftlet, tmp_path: Path
) -> None:
    ignored = shutil.ignore_patterns("README.md")
    encoder = shutil.copytree(LOOKUP_QUERY_ENCODER, tmp_path / "encoder", ignore=ignored)
    assert swiftlet("push-to-hub", encoder, "owner/look-up").returncode == 0
    card = hub.files["owner/look-up"]["README.md"].decode()
    assert "| dimensions of an embedding | 384 |" in card
    assert "| precisions | int8 |" in card
    assert "    swiftlet encoders get owner/look-up\n" in card


def test_a_model_of_sentence_transformers_gets_a_card(
    hub: Hub, swiftlet: Swiftlet, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "modules.json").write_text("[]")
    assert swiftlet("push-to-hub", model, "owner/model", "--private").returncode == 0
    assert {*hub.files["owner/model"]} == {"README.md", "modules.json"}
    assert b'SentenceTransformer("owner/model")' in hub.files["owner/model"]["README.md"]
    assert [path.name for path in model.iterdir()] == ["modules.json"]
    refused = swiftlet("encoders", "get", "owner/model")
    assert "exported: run swiftlet export owner/model --out" in refused.stderr
    assert not (tmp_path / "cache" / "swiftlet" / "encoders" / "model").exists()


@pytest.mark.check
def test_what_cannot_be_uploaded_or_found_is_named(
    hub: Hub, swiftlet: Swiftlet, tmp_path: Path
) -> None:
    def refusal(*arguments: object, token: str = TOKEN) -> str:
        refused = swiftlet(*arguments, token=token)
        assert refused.returncode == 2
        assert "Traceback" not in refused.stderr
        return refused.stderr

    assert "has neither manifest.json nor modules.json" in refusal("push-to-hub", tmp_path, "a/b")
    assert "is 'b'; OWNER/NAME is expected" in refusal("push-to-hub", LOOKUP_QUERY_ENCODER, "b")
    damaged = Path(shutil.copytree(LOOKUP_QUERY_ENCODER, tmp_path / "damaged"))
    (damaged / "tokenizer.json").write_text("{}")
    assert "tokenizer.json" in refusal("push-to-hub", damaged, "owner/damaged")
    assert "owner/damaged" not in hub.files
    assert "hf auth login" in refusal("push-to-hub", LOOKUP_QUERY_ENCODER, "a/b", token="hf_wrong")
    assert "the hub refuses nobody/nothing" in refusal("encoders", "get", "nobody/nothing")
    assert "is 'e6'; OWNER/NAME on the hub is expected" in refusal("encoders", "get", "e6")
