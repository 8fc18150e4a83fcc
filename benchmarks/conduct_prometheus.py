"""A real Prometheus scrapes the service: its figures against those of the load generator."""

import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
from conduct_bench import Bench, Bound, Section, milliseconds, percentile
from conduct_load import Request, arrive, request, searches

from evaluation.markdown import table

_SHARE = 0.5
_BURST, _BURST_SECONDS = 5, 2.0
_TIMEOUT_SECONDS = 60
_POLL_SECONDS = 0.1
_CONFIGURATION = """
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: swiftlet
    static_configs:
      - targets: [{target}]
"""

Counts = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class _Scraped:
    version: str
    sent: Counts
    counted: Counts
    observed: Mapping[str, int]
    client_p99: float
    prometheus_p99: float

    @property
    def sent_by_route(self) -> Counter[str]:
        routes: Counter[str] = Counter()
        for (route, _), count in self.sent.items():
            routes[route] += count
        return routes


class _Prometheus:
    """A running Prometheus, which is asked for values."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=30)

    def wait(self) -> None:
        """Wait until it is ready."""
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            try:
                if self._client.get("/-/ready").is_success:
                    return
            except httpx.TransportError:
                pass
            time.sleep(_POLL_SECONDS)
        raise SystemExit("Prometheus never became ready")

    def wait_for_scrape(self) -> None:
        """Wait until it has seen how the service is from now on."""
        now, deadline = time.time(), time.monotonic() + _TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            if any(scraped > now for _, scraped in self.ask("timestamp(up) and up == 1")):
                return
            time.sleep(_POLL_SECONDS)
        raise SystemExit("Prometheus does not reach the service")

    def ask(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The values that an expression has now, each with its labels."""
        answer = self._client.get("/api/v1/query", params={"query": expression}).raise_for_status()
        found = answer.json()["data"]["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]


def prometheus(bench: Bench, seconds: float) -> Section:
    """Ask everything there is at half of the capacity, then too much, and compare the counts."""
    program = shutil.which("prometheus")
    if program is None:
        raise SystemExit("prometheus is not installed; on Debian: apt-get install prometheus")
    # By another service, whose counters nobody compares.
    with bench.serve() as measured:
        rate = _SHARE * bench.capacity(measured, searches(bench.queries))
    with bench.serve() as running, _scraping(program, running.address, bench.folder) as scraper:
        mixed = _mixed(bench.queries)
        arrivals = arrive(running.address, mixed, rate=rate, seconds=seconds)
        scraper.wait_for_scrape()
        ((_, prometheus_p99),) = scraper.ask(
            "histogram_quantile(0.99, sum by (le) (rate(swiftlet_request_seconds_bucket"
            f'{{route="/search"}}[{round(seconds) + _TIMEOUT_SECONDS}s])))'
        )
        latencies = [
            each
            for (route, _), found in arrivals.latencies.items()
            if route == "/search"
            for each in found
        ]
        client_p99 = percentile(sorted(latencies), 99)
        burst = arrive(running.address, mixed, rate=_BURST * rate / _SHARE, seconds=_BURST_SECONDS)
        scraper.wait_for_scrape()
        sent = Counter(arrivals.counts) + Counter(burst.counts)
        routes = {route for route, _ in sent}
        counted = {
            (labels["route"], int(labels["status"])): round(count)
            for labels, count in scraper.ask("swiftlet_requests_total > 0")
            if labels["route"] in routes
        }
        observed = {
            labels["route"]: round(count)
            for labels, count in scraper.ask("swiftlet_request_seconds_count")
            if labels["route"] in routes
        }
        (build,) = scraper.ask("prometheus_build_info") or [({"version": _version(program)}, 1.0)]
    found = _Scraped(build[0]["version"], sent, counted, observed, client_p99, prometheus_p99)
    return _section(found)


@contextmanager
def _scraping(program: str, address: str, folder: Path) -> Iterator[_Prometheus]:
    configuration = folder / "prometheus.yml"
    configuration.write_text(_CONFIGURATION.format(target=address.removeprefix("http://")))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [program, f"--config.file={configuration}",
             f"--storage.tsdb.path={folder / 'prometheus'}",
             f"--web.listen-address=127.0.0.1:{port}"],
            stderr=log, stdout=log,
        )  # fmt: skip
        try:
            scraper = _Prometheus(f"http://127.0.0.1:{port}")
            scraper.wait()
            scraper.wait_for_scrape()
            yield scraper
        finally:
            process.terminate()
            process.wait(timeout=_TIMEOUT_SECONDS)


def _version(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return (said.stdout + said.stderr).split("version ")[1].split()[0]


def _mixed(queries: Sequence[str]) -> list[Request]:
    """Requests of every route that searches, most of them good, some of each kind of bad one."""
    others = [
        request("/search", method="GET", path="/search?top_k=3&q=bread"),
        request("/search/batch", {"queries": ["a first", "a second", "a third"]}),
        request("/v1/embeddings", {"input": "how is bread baked", "model": "any"}),
        request("/info", method="GET"),
        request("/documents/{document_id}", method="GET", path="/documents/no-such-document"),
        request("/search", {"query": " "}),
        request("/search", b"{"),
        request("/search", method="DELETE"),
        request("/search/batch", {"queries": ["too many"] * 65}),
        request("unknown", method="GET", path="/nothing"),
    ]
    mixed = []
    for number, query in enumerate(queries):
        mixed.append(request("/search", {"query": query}))
        mixed.append(request("/search", method="GET", path=f"/search?q={quote(query)}"))
        if number % 3 == 0:
            mixed.append(others[number // 3 % len(others)])
    return mixed


def _section(found: _Scraped) -> Section:
    differing = [ending for ending in {*found.sent, *found.counted}
                 if found.sent.get(ending, 0) != found.counted.get(ending, 0)]  # fmt: skip
    sent_by_route = found.sent_by_route
    unlike = [route for route in {*sent_by_route, *found.observed}
              if sent_by_route[route] != found.observed.get(route, 0)]  # fmt: skip
    words = WORDS.format(
        version=found.version,
        prometheus_p99=milliseconds(found.prometheus_p99),
        client_p99=milliseconds(found.client_p99),
        share=f"{100 * _SHARE:.0f}",
        burst=_BURST,
        burst_seconds=f"{_BURST_SECONDS:.0f}",
        counts=_count_table(found.sent, found.counted),
        histograms=table(
            [
                ["route", "sent", "`swiftlet_request_seconds_count`"],
                *(
                    [f"`{route}`", f"{sent_by_route[route]:,}", f"{found.observed.get(route, 0):,}"]
                    for route in sorted(sent_by_route)
                ),
            ]
        ),
    )
    return Section(
        "Prometheus",
        words,
        [
            Bound(
                "routes and statuses counted otherwise than sent",
                str(len(differing)),
                "0",
                not differing,
            ),
            Bound(
                "routes whose histogram counts otherwise than sent",
                str(len(unlike)),
                "0",
                not unlike,
            ),
        ],
    )


def _count_table(sent: Counts, counted: Counts) -> str:
    rows = [
        [
            f"`{route}`",
            str(status) if status else "no answer",
            f"{sent.get((route, status), 0):,}",
            f"{counted.get((route, status), 0):,}",
        ]
        for route, status in sorted({*sent, *counted})
    ]
    return table([["route", "status", "received", "`swiftlet_requests_total`"], *rows])


WORDS = """
Prometheus {version} scrapes the service every second, while requests of many kinds arrive at
{share}% of what the service can answer, and then for {burst_seconds} s {burst} times as much as it
can. Of the first part, the p99 of `/search` is {prometheus_p99} by `histogram_quantile` over `rate`
in PromQL, and {client_p99} by the client, from when a request was due to its last byte: what a
request waits before the service reads it, no service can see.

{counts}

{histograms}
"""
