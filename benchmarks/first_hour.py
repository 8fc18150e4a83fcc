"""A new user's first hour, from a clone to a container, without a step by hand.

    .ci/docker python -m benchmarks.first_hour --data ../shared/data --work WORK

It makes an environment of its own in WORK, which must not exist. The files are written as by
`first_hour_files`. Chromium and Docker must be there. It takes a quarter of an hour.
"""

import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import httpx
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from playwright.sync_api import sync_playwright

from benchmarks.first_hour_files import (
    TITLE,
    Article,
    articles_of,
    write_markdown,
    write_page,
    write_pdf,
    write_word,
)
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, ROOT, Figures, write_section
from measuring.testbed import wait_until

HEADING, FILES_A_KIND, DEADLINE_S = "A first hour", 20, 120.0
WRITERS = {".md": write_markdown, ".html": write_page, ".docx": write_word, ".pdf": write_pdf}
NEW_NAME = "XK-4412"
NEW_TEXT = (
    f"# The pump {NEW_NAME}\n\nThe pump {NEW_NAME} lifts water from a well of forty metres.\n"
)


class Hour:
    """Runs steps in a folder, and keeps their commands, times and outcomes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
        }
        self.steps: list[Figures] = []

    def run(self, *commands: str, within: str = ".") -> str:
        """The output of the last of some commands, as a user types them."""
        output = ""
        for command in commands:
            ended = subprocess.run(
                ["bash", "-c", command], cwd=self.folder / within, env=self.environment,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if ended.returncode:
                raise SystemExit(f"{command}: status {ended.returncode}: {ended.stderr[-2000:]}")
            output = ended.stdout
        return output

    def step(self, name: str, does: Callable[[], str], *shown: str) -> None:
        """Do a step, which says what was seen."""
        began = time.perf_counter()
        seen = does()
        seconds = time.perf_counter() - began
        print(f"{name}: {seconds:.1f} s: {seen}", flush=True)
        self.steps.append({"name": name, "shown": shown, "seconds": seconds, "seen": seen})

    def commands(
        self, name: str, seen: Callable[[str], str], *commands: str, within: str = "."
    ) -> None:
        """A step of commands alone; `seen` makes the outcome of the last one's output."""
        self.step(name, lambda: seen(self.run(*commands, within=within)), *commands)


def main() -> None:
    options = script_options(__doc__, data=Path, work=Path, raw=RESULTS / "first-hour.json")
    options.work.mkdir(parents=True)
    hour = Hour(options.work.resolve())
    articles = list(
        islice(articles_of(options.data / "squad-dev-v1.1"), len(WRITERS) * FILES_A_KIND)
    )
    write_files(hour.folder / "documents", articles)
    first = articles[0]
    hour.run(f"git clone --quiet {shlex.quote(str(ROOT))} swiftlet")
    hour.commands(
        "install",
        lambda _: hour.run("swiftlet --version").strip(),
        "python3 -m venv ../venv",
        "pip install --quiet --constraint constraints.txt '.[files,mcp]'",
        within="swiftlet",
    )
    hour.commands("index four kinds of files", last_line, "swiftlet index documents --out index")
    question = shlex.quote(first.questions[0])
    hour.commands("search", first_hit(first), f"swiftlet search index {question}")
    with serving(hour) as service:
        hour.step(
            "search over HTTP",
            lambda: share_found(service, articles),
            f"curl {service.base_url}/search -d '{{\"query\": …}}'",
        )
        hour.step("open the page", lambda: on_the_page(service, first))
        (hour.folder / "new").mkdir()
        (hour.folder / "new" / "pump.md").write_text(NEW_TEXT)
        hour.step(
            "add a document",
            lambda: added(hour, service),
            "swiftlet add index new/",
        )
    hour.commands(
        "filter",
        lambda output: f"{count_of(output, '#page=1')} hits, all of them first pages",
        f"swiftlet search index {question} --top-k 3 --filter '{{\"page\": 1}}'",
    )
    hour.commands(
        "an exact name, by meaning and by words",
        first_hit_is("pump.md"),
        f"swiftlet search index {NEW_NAME} --mode dense",
        f"swiftlet search index {NEW_NAME}",
    )
    hour.commands(
        "install what adapts",
        lambda _: "torch, transformers, optimum",
        "pip install --quiet --constraint constraints.txt torch",
        "pip install --quiet --constraint constraints.txt '.[export]'",
        within="swiftlet",
    )
    hour.commands(
        "adapt the query encoder",
        last_line,
        "swiftlet compact index",
        "swiftlet adapt index --out encoder",
    )
    hour.commands(
        "search with it", first_hit(first), f"swiftlet search index {question} --encoder encoder"
    )
    hour.step("an agent by MCP", lambda: anyio.run(by_mcp, hour), "swiftlet mcp index")
    hour.commands(
        "build the image",
        lambda _: "swiftlet:first-hour",
        "make image TAG=swiftlet:first-hour",
        within="swiftlet",
    )
    hour.step(
        "search in Docker", lambda: in_docker(hour, first), "docker run … --volume index swiftlet"
    )
    figures = {
        "template": "benchmarks/first_hour.md.j2",
        "machine": describe_machine(["onnxruntime", "faiss-cpu"], threads="all cores"),
        "files": len(articles),
        "kinds": list(WRITERS),
        "steps": hour.steps,
    }
    print(write_section(options.raw, TITLE, HEADING, figures))


def write_files(folder: Path, articles: list[Article]) -> None:
    """Files of each kind, in a folder each."""
    remaining = iter(articles)
    for suffix, write in WRITERS.items():
        (folder / suffix[1:]).mkdir(parents=True)
        for article in islice(remaining, FILES_A_KIND):
            write(folder / suffix[1:] / f"{article.name}{suffix}", article)


def last_line(output: str) -> str:
    return output.strip().splitlines()[-1]


def count_of(output: str, text: str) -> int:
    if not (found := output.count(text)):
        raise SystemExit(f"{text!r} is not in: {output}")
    return found


def first_hit(article: Article) -> Callable[[str], str]:
    return first_hit_is(article.name)


def first_hit_is(name: str) -> Callable[[str], str]:
    """Checks that the first line names a document."""

    def seen(output: str) -> str:
        count_of(output.strip().splitlines()[0], name)
        return f"{name} is the first hit"

    return seen


@contextmanager
def serving(hour: Hour) -> Iterator[httpx.Client]:
    """`swiftlet serve` as a step, which ends when the service is ready, and a client of it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = f"swiftlet serve index --port {port}"
    with (hour.folder / "service.log").open("w") as log:
        service = subprocess.Popen(
            shlex.split(command), cwd=hour.folder, env=hour.environment, stdout=log, stderr=log
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            hour.step("serve", lambda: ready(client), command)
            yield client
    finally:
        service.terminate()
        service.wait(DEADLINE_S)


def ready(client: httpx.Client) -> str:
    """Wait until the service answers that it is ready."""

    def answers() -> bool:
        try:
            return client.get("/health/ready").is_success
        except httpx.TransportError:
            return False

    wait_until(answers, "the service is not ready")
    return "ready"


def hits(client: httpx.Client, query: str, **more: Any) -> list[str]:
    answer = client.post("/search", json={"query": query, **more})
    return [hit["document_id"] for hit in answer.raise_for_status().json()["hits"]]


def share_found(client: httpx.Client, articles: list[Article]) -> str:
    """How many questions have the file with the answer among the first ten."""
    asked = [(each, question) for each in articles for question in each.questions]
    found = sum(any(each.name in name for name in hits(client, text)) for each, text in asked)
    return f"{found / len(asked):.1%} of {len(asked):,} questions find the file with the answer"


def on_the_page(client: httpx.Client, article: Article) -> str:
    """Search on the page in Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.goto(str(client.base_url))
        page.get_by_role("searchbox").fill(article.questions[0])
        page.get_by_text(article.name).first.wait_for()
        browser.close()
    return f"{article.name} is on the page"


def added(hour: Hour, client: httpx.Client) -> str:
    """Add a document while the service runs, and wait until the service finds it."""
    hour.run("swiftlet add index new/")
    wait_until(
        lambda: any("pump.md" in name for name in hits(client, NEW_NAME)), "pump.md is not found"
    )
    return "the running service finds it"


async def by_mcp(hour: Hour) -> str:
    """Search by the tools that a program with a language model has."""
    command = str(hour.folder / "venv" / "bin" / "swiftlet")
    server = StdioServerParameters(command=command, args=["mcp", str(hour.folder / "index")])
    async with Client(stdio_client(server)) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("search", {"query": NEW_NAME})
    count_of(str(result.content), "pump.md")
    return f"{', '.join(tools)}; pump.md is found"


def in_docker(hour: Hour, article: Article) -> str:
    """Search the index in a container of the image."""
    name = f"first-hour-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hour.run(
        f"docker run --detach --rm --name {name} --publish 127.0.0.1:{port}:8000 "
        f'--volume "$PWD/index:/data/index:ro" swiftlet:first-hour'
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            ready(client)
            return first_hit(article)(hits(client, article.questions[0])[0])
    finally:
        hour.run(f"docker stop {name}")


if __name__ == "__main__":
    main()
