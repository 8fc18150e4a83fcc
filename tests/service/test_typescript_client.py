"""The client for TypeScript, made from the served OpenAPI document, packed, and run by Node."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.wire.rights import add_key
from tests.service.conftest import Server, running

pytestmark = pytest.mark.check
SOURCE = Path(__file__).parents[2] / "clients" / "typescript"
PROGRAM = """
import { createClient } from "swiftlet-client";

const [url = "", key = ""] = process.argv.slice(2);
const client = createClient(url, { key });
const body = { query: "how is bread baked", filter: { topic: "bread" }, top_k: 2 };
const { data, error } = await client.POST("/search", { body });
if (error) throw new Error(error.detail);
const titles: string[] = data.hits.map((hit) => hit.document_id);
const path = { document_id: titles[0] ?? "" };
const read = await client.GET("/documents/{document_id}", { params: { path } });
const refused = await client.POST("/search", { body: { query: "bread", top_k: 0 } });
const all = await Promise.all(Array.from({ length: 64 }, () => client.POST("/search", { body })));
const wrong = await createClient(url, { key: "wrong" }).POST("/search", { body });
// @ts-expect-error a query is a text
const unchecked = () => client.POST("/search", { body: { query: 3 } });
// @ts-expect-error there is no such mode
const alike = () => client.POST("/search", { body: { query: "bread", mode: "fast" } });
console.log(JSON.stringify({
  titles,
  text: read.data?.text,
  refused: refused.error?.detail,
  found: all.filter((each) => each.data).length,
  wrong: wrong.response.status,
}));
"""


def ran(folder: Path, *command: object) -> str:
    made = subprocess.run(
        [*map(str, command)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return made.stdout


@pytest.fixture(scope="module")
def key_and_server(small_index, tmp_path_factory) -> Iterator[tuple[str, Server]]:
    """A service, and a key for 60 requests a minute."""
    path = tmp_path_factory.mktemp("keys") / "keys.jsonl"
    key = add_key(path, "program", requests_per_minute=60)
    with running(small_index, keys=path) as server:
        yield key, server


@pytest.fixture(scope="module")
def user(key_and_server, tmp_path_factory) -> Path:
    """A folder of a user, who has installed the packed client."""
    if shutil.which("npm") is None:
        message = "the client for TypeScript needs Node: on Debian: apt-get install npm"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    own, folder = (tmp_path_factory.mktemp(name) for name in ("client", "user"))
    shutil.copytree(SOURCE, own, dirs_exist_ok=True)
    ran(own, "npm", "install", "--no-audit", "--no-fund")
    ran(own, "npm", "run", "generate", f"{key_and_server[1].url}/openapi.json")
    (folder / "package.json").write_text('{"type": "module"}')
    packed = own / ran(own, "npm", "pack", "--silent").strip()
    install = ["npm", "install", "--no-audit", "--no-fund", packed, "@types/node@20.19.0"]
    ran(folder, *install)
    (folder / "tsc").symlink_to(own / "node_modules" / ".bin" / "tsc")
    return folder


def test_a_program_searches_reads_and_waits_where_it_is_too_fast(user, key_and_server):
    key, server = key_and_server
    (user / "use.ts").write_text(PROGRAM)
    ran(user, "./tsc", "--strict", "--module", "nodenext", "--target", "es2022", "use.ts")
    found = json.loads(ran(user, "node", "use.js", server.url, key))
    assert len(found["titles"]) == 2
    assert "yeast" in found["text"]
    assert found["refused"].startswith("top_k is 0")
    assert found["found"] == 64
    assert found["wrong"] == 403
    assert server.value('swiftlet_rejected_total{reason="busy-key"}') > 0
