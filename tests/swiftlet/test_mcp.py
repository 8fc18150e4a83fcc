"""An index as tools of the Model Context Protocol, with the protocol's own client."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import swiftlet
from swiftlet.integrations.mcp import mcp_server
from tests.command_line import refusal
from tests.command_line import swiftlet as run

DOCUMENTS = [
    {
        "_id": f"{kind}-{number}",
        "title": f"{kind} {number}",
        "text": f"The {kind} number {number} is described here. " * 60,
        "kind": kind,
    }
    for kind in ("volcano", "glacier")
    for number in range(5)
]


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("mcp") / "index"
    swiftlet.build(DOCUMENTS, out)
    return out


async def answer(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    (content,) = result.content
    return content.text


async def refused(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (content,) = result.content
    return content.text


async def use(client: Client, index: Path) -> None:
    """What a program with a language model does, whatever carries its messages."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {*tools} == {"search", "get_document", "similar"}
    assert "How many documents" in str(tools["search"].input_schema)

    found = await answer(client, "search", query="volcano number 3", top_k=3)
    assert found.startswith(
        "[volcano-3] volcano 3\nline 1:\nThe volcano number 3 is described here."
    )
    assert found.count("\n\n[") == 3
    assert found.endswith("[More: offset=3]")
    only = {"kind": "glacier"}
    found = await answer(client, "search", query="volcano 3", filter=only, mode="dense", top_k=5)
    assert "volcano-" not in found
    boost = {"filter": only, "weight": 1}
    found = await answer(client, "search", query="volcano 3", boost=boost, top_k=5)
    assert found.startswith("[glacier-")
    for order, first in (("kind:asc", "[glacier-"), ("kind:desc", "[volcano-")):
        found = await answer(client, "search", query="described here", sort=order)
        assert found.startswith(first)
    short = await answer(client, "search", query="glacier", top_k=5, max_tokens=300)
    assert len(short) < 1300
    shown = short.count("[glacier-")
    assert 1 <= shown < 5
    assert f"[More: offset={shown}]" in short
    none = await answer(client, "search", query="glacier", max_tokens=10)
    assert none == "No documents found, or no room for one in 10 tokens."
    beyond = await answer(client, "search", query="glacier", offset=99)
    assert beyond == "No documents from offset 99 on."

    text = DOCUMENTS[3]["text"]
    whole = await answer(client, "get_document", document_id="volcano-3", max_tokens=9000)
    assert text in whole
    assert "kind: volcano" in whole
    part = await answer(client, "get_document", document_id="volcano-3", max_tokens=50)
    start = int(part.partition("start=")[2].partition(".")[0])
    rest = await answer(
        client, "get_document", document_id="volcano-3", start=start, max_tokens=9000
    )
    assert rest.endswith(text[start:])
    for wrong in (-1, len(text) + 1):
        sentence = f"0 to {len(text):,} is expected"
        assert sentence in await refused(
            client, "get_document", document_id="volcano-3", start=wrong
        )

    like = await answer(client, "similar", document_id="glacier-1", top_k=4)
    assert like.count("[glacier-") == 4
    assert "[glacier-1]" not in like

    assert "1 to 50 is expected: go on with offset" in await refused(
        client, "search", query="a", top_k=10_000
    )
    assert "max_tokens is 0" in await refused(client, "search", query="a", max_tokens=0)
    assert "nobody" in await refused(client, "get_document", document_id="nobody")
    assert "empty" in await refused(client, "search", query=" ")
    assert "the documents have the fields" in await refused(
        client, "search", query="a", filter={"colour": "red"}
    )
    with swiftlet.write(index) as writer:
        writer.put([{"_id": "new", "text": "A document that was put later."}])
        writer.delete(["volcano-4"])
    with anyio.fail_after(20):
        while (await client.call_tool("get_document", {"document_id": "new"})).is_error:
            await anyio.sleep(0.1)
    assert "volcano-4" in await refused(client, "get_document", document_id="volcano-4")
    with swiftlet.write(index) as writer:
        writer.put([DOCUMENTS[4]])
        writer.delete(["new"])


def test_a_client_searches_and_reads_over_standard_input(index):
    async def main() -> None:
        command = ["-m", "swiftlet", "mcp", str(index)]
        server = StdioServerParameters(command=sys.executable, args=command, env={**os.environ})
        async with Client(stdio_client(server)) as client:
            await use(client, index)

    anyio.run(main)


def test_a_client_searches_and_reads_over_http(index, free_port):
    async def main() -> None:
        async with Client(f"http://127.0.0.1:{free_port}/mcp") as client:
            found = await answer(client, "search", query="volcano number 3", top_k=3)
            assert found.startswith("[volcano-3] volcano 3")
            assert "max_tokens is 0" in await refused(client, "search", query="a", max_tokens=0)

    command = [sys.executable, "-m", "swiftlet", "mcp", index, "--http", "--port", f"{free_port}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            assert f"http://127.0.0.1:{free_port}/mcp" in server.stderr.readline()
            anyio.run(main)
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(20) in (0, 130)


@pytest.mark.check
def test_a_folder_is_searched_and_followed(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "pump.md").write_text("# Pump\n\nOil the pump every month.")

    async def main() -> None:
        command = ["-m", "swiftlet", "mcp", str(folder)]
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        server = StdioServerParameters(command=sys.executable, args=command, env=environment)
        async with Client(stdio_client(server)) as client:
            found = await answer(client, "search", query="how often is it oiled?")
            assert found.startswith("[pump.md] Pump")
            (folder / "tank.md").write_text("# Tank\n\nClean the tank once a year.")
            with anyio.fail_after(120):
                while "tank.md" not in await answer(client, "search", query="clean the tank"):
                    await anyio.sleep(0.2)

    anyio.run(main)
    assert {path.name for path in folder.iterdir()} == {"pump.md", "tank.md"}


def test_ctrl_c_ends_a_server_that_waits_for_input(index):
    command = [sys.executable, "-m", "swiftlet", "mcp", index]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        server.stdin.write(f"{json.dumps(ping)}\n")
        server.stdin.flush()
        assert server.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == -signal.SIGINT
        assert server.stderr is not None
        assert "Traceback" not in server.stderr.read()


def test_a_port_in_use_is_refused(index):
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = used.getsockname()[1]
        assert f"{port}" in refusal(run("mcp", index, "--http", "--port", port))


def test_answers_are_as_long_as_was_asked_whatever_a_document_holds(tmp_path):
    documents = [
        {"_id": "long", "title": "Rain " * 2_000, "text": "Rain falls.", "notes": "x " * 9_000},
        {"_id": "bare", "text": "Snow falls."},
        {"_id": "odd", "text": "Rain\0falls."},
        {"_id": "none", "title": "\0", "text": "\0"},
    ]
    swiftlet.build(documents, tmp_path / "index")
    with swiftlet.open(tmp_path / "index") as searcher:
        server = mcp_server(searcher)

        async def main() -> None:
            async with Client(server) as client:
                found = await answer(client, "search", query="rain", max_tokens=100)
                assert "[long]" in found
                whole = await answer(client, "get_document", document_id="long", max_tokens=100)
                assert "[long]\n\nRain falls." in whole
                assert max(map(len, (found, whole))) < 500
                assert "[bare]\nline 1:\nSnow" in await answer(
                    client, "search", query="snow", top_k=1
                )
                assert "[bare]" in await answer(client, "similar", document_id="odd")
                assert "no text" in await refused(client, "similar", document_id="none")
                asked = await refused(client, "similar", document_id="odd", top_k=10_000)
                assert asked.endswith("1 to 50 is expected")

        anyio.run(main)
