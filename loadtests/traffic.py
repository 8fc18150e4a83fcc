"""Which requests are sent, in which mix."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

from loadtests.command_line import LoadTestError

SINGLE, BATCH, CACHED = KINDS = ("single", "batch", "cached")
SEARCH_PATH, BATCH_PATH = "/search", "/search/batch"
POPULAR_QUERIES = 16


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each kind of request comes, as weights, and what is in it.

    `single` asks one query, `batch` several at once, `cached` one of a few popular queries, whose
    embeddings the service soon has in its cache.
    """

    single: float = 1.0
    batch: float = 0.0
    cached: float = 0.0
    batch_queries: int = 8
    top_k: int = 10

    def __post_init__(self) -> None:
        if min(self.weights) < 0:
            raise LoadTestError(f"a weight is {min(self.weights):g}; at least 0 is expected")
        if not sum(self.weights):
            raise LoadTestError("--single, --batch and --cached are all 0; one must be above")

    @property
    def weights(self) -> tuple[float, ...]:
        """In the order of `KINDS`."""
        return self.single, self.batch, self.cached

    def __str__(self) -> str:
        words = {
            SINGLE: "single queries",
            BATCH: f"batches of {self.batch_queries}",
            CACHED: f"{POPULAR_QUERIES} popular queries",
        }
        shares = [
            f"{weight / sum(self.weights):.0%} {words[kind]}"
            for kind, weight in zip(KINDS, self.weights, strict=True)
            if weight
        ]
        return f"{', '.join(shares)}, top_k {self.top_k}"


class Request(NamedTuple):
    """One request to send."""

    kind: str
    path: str
    body: bytes


def traffic(queries: Sequence[str], mix: Mix, *, seed: int) -> Iterator[Request]:
    """Requests without end; the same arguments give the same ones.

    Queries come in a shuffled order, again from the start after the last one.
    """
    chance = random.Random(seed)
    shuffled = chance.sample(queries, len(queries))
    popular, rest = shuffled[:POPULAR_QUERIES], cycle(shuffled)
    while True:
        (kind,) = chance.choices(KINDS, mix.weights)
        if kind == BATCH:
            asked = [next(rest) for _ in range(mix.batch_queries)]
            yield _request(kind, BATCH_PATH, {"queries": asked, "top_k": mix.top_k})
        else:
            query = chance.choice(popular) if kind == CACHED else next(rest)
            yield _request(kind, SEARCH_PATH, {"query": query, "top_k": mix.top_k})


def _request(kind: str, path: str, body: dict[str, object]) -> Request:
    return Request(kind, path, json.dumps(body).encode())
