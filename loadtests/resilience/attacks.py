"""Requests that take much of the service for little: what other clients notice of them."""

import json
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from measuring.http_client import OK, Request, search
from measuring.load_figures import percentile
from measuring.loads import Load, closed_loop, open_loop
from measuring.results import at_most, milliseconds
from measuring.testbed import Testbed

LIVENESS_SECONDS = 0.1
PROBES_PER_SECOND = 20.0
_LIVENESS = Request("liveness", "/health/live", method="GET")
_LEAD_SECONDS = 2.0

_KEY = "the-key-of-the-attacks"
_TINY_ARRAYS = b'{"queries":[' + b",".join([b"[]"] * 1_390_000) + b"]}"
_MANY_HITS = json.dumps({"query": "how is bread made", "top_k": 1000}).encode()
_FIELDS = b"{" + b",".join(b'"%x":{}' % number for number in range(300_000)) + b"}"
_FILTER = b'{"filter":{"a":{"any":[' + b",".join([b"1"] * 900_000) + b"]}}}"
_VALUES = [{"_id": "a", "text": "b", "metadata": {"c": [[[1]]] * 16_000}}]
_LONG_QUERIES = json.dumps({"queries": ["how is bread made " * 550] * 64}).encode()
_TEXTS = json.dumps({"input": [f"how is bread {number} made" for number in range(2_048)]}).encode()
_PARAMETERS = "&".join(f"a{number}=1" for number in range(6_500))
_ESCAPED = "&".join(f"a{number}={'%41' * 330}" for number in range(63))
_CONDITIONS = json.dumps({"query": "a", "filter": {"a": {"any": [*range(2_000)]}}}).encode()
_MANY = 40

WAYS = {
    "none": (search("how is bread made"), 0),
    "bodies of 4 MB full of tiny arrays": (Request("batch", "/search/batch", _TINY_ARRAYS), _MANY),
    "searches with top_k 1000": (Request("single", "/search", _MANY_HITS), _MANY),
    "more searches than fit into the queue": (search("how is bread made"), 400),
    "puts of 300,000 fields": (Request("put", "/documents", _FIELDS, "PUT", key=_KEY), _MANY),
    "puts of 32,000 lists": (
        Request("put", "/documents", json.dumps({"documents": _VALUES}).encode(), "PUT", key=_KEY),
        _MANY,
    ),
    "filters of 900,000 values": (Request("delete", "/documents/delete", _FILTER, key=_KEY), _MANY),
    "batches of long queries": (Request("batch", "/search/batch", _LONG_QUERIES), _MANY),
    "2,048 texts to embed": (Request("embed", "/v1/embeddings", _TEXTS), _MANY),
    "6,500 parameters": (Request("link", f"/search?{_PARAMETERS}", method="GET"), _MANY),
    "escaped parameters": (Request("link", f"/search?{_ESCAPED}", method="GET"), _MANY),
    "filters of 2,000 values": (Request("single", "/search", _CONDITIONS), _MANY),
}
"""Each attack: its request, and how many clients send it."""


def attacks(testbed: Testbed, seconds: float) -> dict[str, Any]:
    """Attack a service in each way for so many seconds, and probe it meanwhile."""
    rows = {name: attack(testbed, *way, seconds=seconds) for name, way in WAYS.items()}
    return {
        "seconds": seconds,
        "probes_per_second": PROBES_PER_SECOND,
        "attacks": rows,
        "bounds": [
            at_most(
                f"liveness, slowest probe: {name}", row["liveness"]["most"], LIVENESS_SECONDS,
                milliseconds,
            )
            for name, row in rows.items()
        ],
    }  # fmt: skip


def attack(testbed: Testbed, request: Request, clients: int, *, seconds: float) -> dict[str, Any]:
    """What probes and the attack itself notice while `clients` send `request` without a pause."""
    probes = [_LIVENESS, search(testbed.queries[1])]
    moments = np.arange(0, seconds, 1 / PROBES_PER_SECOND) + _LEAD_SECONDS
    # Puts change the index, so each attack has a copy.
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=testbed.folder))
        index = shutil.copytree(testbed.index, Path(folder, "index"))
        service = stack.enter_context(testbed.serve(index, write_keys=_KEY))
        testbed.capacity(service, testbed.requests)
        if clients:
            # Another process, so that the probes do not wait for the interpreter of the attack.
            spawn = get_context("spawn")
            pool = stack.enter_context(ProcessPoolExecutor(1, mp_context=spawn))
            attacking = pool.submit(
                closed_loop, service.address, repeat(request), clients=clients,
                seconds=seconds + 2 * _LEAD_SECONDS,
            )  # fmt: skip
        load = open_loop(service.address, probes, moments, seconds=seconds, warm_up=_LEAD_SECONDS)
        return _row(load, attacking.result() if clients else None)


def _row(probes: Load, load: Load | None) -> dict[str, Any]:
    def seconds_of(kind: str) -> dict[str, float]:
        found = [each.latency for each in probes.exchanges if each.request.kind == kind]
        return {"p50": percentile(np.array(found), 50), "most": max(found)}

    exchanges, wall_seconds = (load.exchanges, load.wall_seconds) if load else ([], 1.0)
    refused = np.array([each.latency for each in exchanges if each.status == 429])
    return {
        "liveness": seconds_of("liveness"),
        "search": seconds_of("single"),
        "probes_failed": sum(each.status not in (OK, 429) for each in probes.exchanges),
        "attack_per_second": len(exchanges) / wall_seconds,
        "answered_per_second": sum(each.status == OK for each in exchanges) / wall_seconds,
        "refused_p99": percentile(refused, 99) if len(refused) else None,
    }
