"""A real server in a process of its own, and applications that are called without a server."""

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from service.admission.executor import SearchExecutor
from service.app import create_app
from service.live.reload import Reloader
from service.live.state import ServiceState
from service.sight.metrics import Metrics
from service.wire.requests import Limits
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import Encoder
from swiftlet.index.parts.search_parts import FixedIndex
from swiftlet.search.searcher import Searcher
from tests.service.attacker import Attacker

START = """
import sys
from pathlib import Path
from swiftlet.errors import RetrievalError
from service.server import serve
from service.settings import load_settings
try:
    serve(load_settings(), on_ready=lambda address: print(address, flush=True))
except RetrievalError as error:
    sys.exit(str(error))
"""


def value_of(metrics: str, series: str) -> float:
    return float(re.search(rf"^{re.escape(series)} (.*)$", metrics, re.MULTILINE)[1])  # type: ignore[index]


@dataclass
class Server:
    """A service in a process of its own; `log` grows until it has ended."""

    process: subprocess.Popen[str]
    url: str
    log: list[str]
    settings: dict[str, object]

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=100, verify=False)

    def connect(self) -> socket.socket:
        """A connection over which a test sends bytes of its own."""
        address = urlsplit(self.url)
        return socket.create_connection((address.hostname, address.port), timeout=100)

    def value(self, series: str) -> float:
        """The present value of a series of `/metrics`."""
        return value_of(httpx.get(f"{self.url}/metrics", timeout=100).text, series)

    def ended(self) -> int:
        """The exit status, once the process has ended and its log is whole."""
        status = self.process.wait(timeout=100)
        self.reader.join(timeout=100)
        return status

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(self.process.stderr)


PATIENT = dict.fromkeys(("timeout_ms", "body_timeout_ms", "write_timeout_ms"), 60_000)
"""Settings with which answers come in time also where cores are busy."""


def start(index: Path | str, **settings: object) -> Server:
    """Start a service of one process, unless `workers` says otherwise."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("SWIFTLET_")
    }
    settings = {
        "index": index,
        "encoder": DEFAULT_ENCODER,
        "port": 0,
        "workers": 1,
        **PATIENT,
        **settings,
    }
    environment |= {f"SWIFTLET_{name.upper()}": str(value) for name, value in settings.items()}
    process = subprocess.Popen(
        [sys.executable, "-c", START],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    server = Server(process, "", [], settings)
    assert process.stdout is not None
    server.url = process.stdout.readline().strip()
    return server


@pytest.fixture
def start_server(small_index) -> Iterator[Callable[..., Server]]:
    """Starts servers over the small index with the given settings; the test's end stops them."""
    servers = []

    def start_one(**settings: object) -> Server:
        servers.append(start(settings.pop("index", small_index), **settings))
        return servers[-1]

    yield start_one
    for server in servers:
        server.process.kill()
        server.ended()


@contextmanager
def running(index: Path, **settings: object) -> Iterator[Server]:
    """A server that must stop cleanly at the end."""
    server = start(index, **settings)
    try:
        assert server.url, server.log
        yield server
    except BaseException:
        server.process.kill()
        server.ended()
        raise
    server.process.terminate()
    assert server.ended() == 0, server.log


@pytest.fixture(scope="session")
def server(small_index) -> Iterator[Server]:
    """One server for all tests that do not change it."""
    with running(small_index, access_log="true") as server:
        yield server


@pytest.fixture(scope="session")
def locked_server(small_index) -> Iterator[Server]:
    """One server with keys, for all tests that do not change it."""
    keys = {"search_keys": "a-search-key-of-the-tests", "admin_keys": "an-admin-key-of-the-tests"}
    with running(small_index, **keys) as server:
        yield server


@pytest.fixture(scope="module")
def attacker(locked_server) -> Iterator[Attacker]:
    """Check after all tests of this module that there was no internal error."""
    settings = locked_server.settings
    keys = {"search": settings["search_keys"], "admin": settings["admin_keys"]}
    yield Attacker(locked_server.url, keys)
    metrics = httpx.get(f"{locked_server.url}/metrics", timeout=100).text
    assert 'swiftlet_rejected_total{reason="internal-error"} 0.0' in metrics
    assert "Traceback" not in "".join(locked_server.log)
    assert httpx.get(f"{locked_server.url}/health/ready", timeout=100).status_code == 200


@pytest.fixture(scope="session")
def client(server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def with_encoder(searcher: Searcher, encoder: Encoder) -> Searcher:
    """A searcher with the same index and another encoder."""
    parts = replace(searcher.parts, encoder=encoder, lexical=None, columns=None)
    return Searcher(FixedIndex(parts, searcher.index_manifest), searcher.encoder_manifest)


@dataclass
class Application:
    """An application in this process, with the parts it was made from."""

    app: ASGIApp
    state: ServiceState
    registry: CollectorRegistry
    executor: SearchExecutor

    def ask(self, method: str, path: str, **request: object) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                return await client.request(method, path, **request)

        return asyncio.run(ask())


@pytest.fixture
def make_application() -> Iterator[Callable[..., Application]]:
    closing = ExitStack()

    def make(
        searcher: Searcher,
        limits: Limits | None = None,
        *,
        threads: int = 2,
        max_queued: int = 256,
        cache_bytes: int = 0,
        load: Callable[[], Searcher] | None = None,
        **parts: object,
    ) -> Application:
        executor = SearchExecutor(threads, max_queued=max_queued)
        closing.callback(executor.close)
        state = ServiceState(searcher, cache_bytes=cache_bytes)
        registry = CollectorRegistry()
        if load is not None:
            parts["reloader"] = Reloader(state, load, registry)
            closing.callback(parts["reloader"].close)
        app = create_app(
            state,
            limits=limits or Limits(timeout_ms=PATIENT["timeout_ms"]),
            executor=executor,
            metrics=Metrics(registry),
            **parts,
        )
        return Application(app, state, registry, executor)

    with closing:
        yield make
