"""Holds a running service against its own OpenAPI document, with requests that Schemathesis makes.

    python benchmarks/contract.py

All checks of Schemathesis at every route: documented statuses, media types, headers and schemas;
what the document allows is accepted, what it forbids is refused, and no key means no answer. It
serves a part of the documentation of Python's standard library, or takes the service at --url.
Writes its section of docs/results/service.md. Exit status 1 if anything was found. The same seeds
make the same requests.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from service_page import PAGE, command_of, write_section

import models
from evaluation.machine import describe_machine
from indexing.build import build_index
from indexing.standard_library import read_standard_library

SEARCH_KEY, ADMIN_KEY = "search-key-of-the-contract", "admin-key-of-the-contract"
NUM_DOCUMENTS = 20
STOP_TIMEOUT_SECONDS = 60
LONGEST_LINE = 500
MOST_RELOADS = 10
DOCUMENT, CONFIGURATION = "openapi.json", "schemathesis.toml"

# Not what Schemathesis expects by itself, but what the document says: a deadline may pass, a
# server may stop, and a batch that is too long is too large. A busy machine is no failure.
SETTINGS = """
hooks = {hooks}
suppress-health-check = ["all"]
request-timeout = 60
[auth.openapi.SWIFTLET_SEARCH_KEYS]
bearer = {search_key}
[auth.openapi.SWIFTLET_ADMIN_KEYS]
bearer = {admin_key}
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503, 504]
[checks.negative_data_rejection]
expected-statuses = ["4xx", 503, 504]
[generation]
max-examples = {per_route}
[[operations]]
include-path = "/admin/reload"
generation.max-examples = {reloads}
"""


@dataclass
class Findings:
    """How many cases were tried, and what was wrong with the answers."""

    cases: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    reports: list[str] = field(default_factory=list)

    def add(self, outcome: dict[str, Any], lines: list[str]) -> None:
        self.cases += outcome["test_cases"]["generated"]
        for failure in outcome["failures"]:
            self.failures[failure["title"]] += failure["count"]
        if not outcome["complete"] or outcome["errors"]:
            self.failures["the run is incomplete"] += 1
        self.reports.append("\n".join(lines if outcome["exit_code"] else lines[-1:]))


def main() -> None:
    parser = make_parser()
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.url:
            found, answers = measure(arguments.url, arguments, folder)
        else:
            documents = islice(read_standard_library(), NUM_DOCUMENTS)
            build_index(documents, models.DEFAULT_ENCODER, folder / "index")
            with served(folder / "index") as url:
                found, answers = measure(url, arguments, folder)
    print(*found.reports, sep="\n")
    command = command_of(parser, arguments)
    write_section(arguments.out, "Contract", render(command, found, answers))
    sys.exit(bool(found.failures))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000, help="at least so many")
    parser.add_argument("--per-route", type=int, default=300, help="at most, of one client")
    parser.add_argument("--clients", type=int, default=4, help="at the same time, each of its seed")
    parser.add_argument("--seed", type=int, default=1, help="of the first client")
    parser.add_argument("--url", help="a service that has the keys below")
    parser.add_argument("--search-key", default=SEARCH_KEY)
    parser.add_argument("--admin-key", default=ADMIN_KEY)
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    return parser


@contextmanager
def served(index: Path) -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "swiftlet", "serve", str(index), "--port", "0"],
        env={
            **os.environ,
            "SWIFTLET_SEARCH_KEYS": SEARCH_KEY,
            "SWIFTLET_ADMIN_KEYS": ADMIN_KEY,
            # The document says them, so that they are met as often as larger ones, in less time.
            "SWIFTLET_MAX_QUERY_CHARS": "1000",
            "SWIFTLET_MAX_BATCH_QUERIES": "8",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        for line in server.stderr:
            if "listening on " in line:
                break
        else:
            raise SystemExit("the server did not start")
        # Every reload writes a line, and a full pipe would hold the server up.
        Thread(target=server.stderr.read, daemon=True).start()
        yield line.split("listening on ")[1].strip()
    finally:
        server.terminate()
        server.wait(timeout=STOP_TIMEOUT_SECONDS)


def measure(
    url: str, arguments: argparse.Namespace, folder: Path
) -> tuple[Findings, Counter[tuple[str, str]]]:
    """Findings, and answers by route and status as the service counts them."""
    # As a file, since Schemathesis leaves out the route that it has the document from.
    document = folder / DOCUMENT
    document.write_bytes(httpx.get(f"{url}/openapi.json").raise_for_status().content)
    before = answers_of(url)
    found = Findings()
    configuration = folder / CONFIGURATION
    configuration.write_text(
        SETTINGS.format(
            hooks=json.dumps(str(Path(__file__).resolve().with_name("contract_hooks.py"))),
            search_key=json.dumps(arguments.search_key),
            admin_key=json.dumps(arguments.admin_key),
            per_route=arguments.per_route,
            # One takes as long as hundreds of searches, and has next to nothing that could vary.
            reloads=min(arguments.per_route, MOST_RELOADS),
        )
    )
    with ThreadPoolExecutor(arguments.clients) as pool:
        while found.cases < arguments.cases:
            seeds = range(len(found.reports), len(found.reports) + arguments.clients)
            for outcome, lines in pool.map(partial(run, url, arguments, folder), seeds):
                found.add(outcome, lines)
            print(f"{found.cases:,} cases, {found.failures.total()} failures", file=sys.stderr)
    return found, answers_of(url) - before


def run(
    url: str, arguments: argparse.Namespace, folder: Path, number: int
) -> tuple[dict[str, Any], list[str]]:
    """What one client tried and found, in figures and in words."""
    report = folder / f"{number}.json"
    options = ["--seed", str(arguments.seed + number)]
    if number == 0:
        options += ["--phases", "coverage,fuzzing"]
    else:  # the first has tried wrong keys, and what all clients would have in common
        options += ["--phases", "fuzzing", "--generation-with-security-parameters", "false"]
    run = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--config-file", str(folder / CONFIGURATION),
         "run", str(folder / DOCUMENT), "--url", url, "--continue-on-failure", "--no-color",
         "--generation-database", "none",
         "--report", "json", "--report-json-path", str(report), *options],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line[:LONGEST_LINE] for line in run.stdout.splitlines() if line]
    if not report.exists():
        raise SystemExit("\n".join([*lines, run.stderr]))
    return json.loads(report.read_text()), lines


def answers_of(url: str) -> Counter[tuple[str, str]]:
    families = text_string_to_metric_families(httpx.get(f"{url}/metrics").raise_for_status().text)
    return Counter(
        {
            (sample.labels["route"], sample.labels["status"]): int(sample.value)
            for family in families
            for sample in family.samples
            if sample.name == "swiftlet_requests_total"
        }
    )


def render(command: str, found: Findings, answers: Counter[tuple[str, str]]) -> str:
    statuses = sorted({status for _, status in answers})
    rows = [
        f"| `{route}` | " + " | ".join(f"{answers[route, status]:,}" for status in statuses) + " |"
        for route in sorted({route for route, _ in answers})
    ]
    failures = [f"- {title}: {count}" for title, count in found.failures.items()]
    return "\n".join([
        f"Made by `{command}`: Schemathesis makes requests of the",
        "service's own OpenAPI document, good and bad ones, and holds every answer against it. "
        + describe_machine(["schemathesis", "fastapi", "uvicorn"], threads="all cores"),
        "",
        f"{found.cases:,} cases, {answers.total():,} requests, {found.failures.total()} failures.",
        *failures,
        "",
        f"| route | {' | '.join(statuses)} |",
        "|---|" + "---|" * len(statuses),
        *rows,
    ])  # fmt: skip


if __name__ == "__main__":
    main()
