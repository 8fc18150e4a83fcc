"""The requests of a load test: queries from a file, in a mix of kinds."""

import argparse
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from measuring.command_line import LoadTestError, number
from measuring.http_client import Request
from swiftlet.corpora.lines import parse_lines
from swiftlet.corpora.records import query_text_from_json

SINGLE, BATCH = KINDS = ("single", "batch")
SEARCH_PATH, BATCH_PATH = "/search", "/search/batch"
QUERIES_FILE = "queries.jsonl"
_SAMPLE_SEED = 5


@dataclass(frozen=True, slots=True)
class Mix:
    """The weight of each kind of request, and its size.

    `single` has one query, and `batch` several.
    """

    single: float = 1.0
    batch: float = 0.0
    batch_queries: int = 8
    top_k: int = 10

    def __post_init__(self) -> None:
        if not sum(self.weights):
            raise LoadTestError("--single and --batch are both 0; one must be above")

    @property
    def weights(self) -> tuple[float, ...]:
        """In the order of `KINDS`."""
        return self.single, self.batch

    def __str__(self) -> str:
        names = "single queries", f"batches of {self.batch_queries}"
        weighed = zip(names, self.weights, strict=True)
        shares = [f"{weight / sum(self.weights):.0%} {kind}" for kind, weight in weighed if weight]
        return f"{', '.join(shares)}, top_k {self.top_k}"


def add_mix_options(add: Callable[..., Any]) -> None:
    """Add the options of a mix by a parser's `add_argument`."""
    for kind, weight in ((SINGLE, 1.0), (BATCH, 0.0)):
        add(f"--{kind}", type=number(0, 1e6), default=weight, help="weight of such requests")
    add("--batch-queries", type=number(1, 10_000, int), default=8, help="queries of a batch")
    add("--top-k", type=number(1, 10_000, int), default=10)
    add("--seed", type=number(0, 2**31, int), default=0)


def mix_of(options: argparse.Namespace) -> Mix:
    """The mix from the options.

    :raises LoadTestError: When all weights are 0.
    """
    return Mix(**{n: vars(options)[n] for n in Mix.__slots__ if n in options})


def traffic(queries: Sequence[str], mix: Mix, *, seed: int) -> Iterator[Request]:
    """An endless sequence of requests; the same arguments give the same requests.

    Queries are in a shuffled order, and repeat after the last one.
    """
    chance = random.Random(seed)
    shuffled = chance.sample(queries, len(queries))
    rest = cycle(shuffled)
    while True:
        (kind,) = chance.choices(KINDS, mix.weights)
        if kind == BATCH:
            asked = [next(rest) for _ in range(mix.batch_queries)]
            body: dict[str, object] = {"queries": asked}
        else:
            body = {"query": next(rest)}
        path = BATCH_PATH if kind == BATCH else SEARCH_PATH
        yield Request(kind, path, json.dumps(body | {"top_k": mix.top_k}).encode())


def read_queries(path: Path) -> list[str]:
    """The queries of a `.jsonl` file or BEIR folder ("text" of each line), or of a text file.

    :raises CollectionError: When the file is missing, has no query, or a line of it is bad.
    """
    file = path / QUERIES_FILE if path.is_dir() else path
    parse = query_text_from_json if file.suffix == ".jsonl" else str.strip
    return [text for _, text in parse_lines(file, parse)]


def sample_of(path: Path, count: int) -> list[str]:
    """A sample of at most `count` queries, the same one each time; errors as in `read_queries`."""
    texts = read_queries(path)
    return random.Random(_SAMPLE_SEED).sample(texts, min(count, len(texts)))
