"""What the artefacts of this folder answer, in Python, over HTTP and by `swiftlet inspect`.

Commit 5a142de keeps `make.py`, which made them, and `expected.json`, in a checkout of 37a26d1.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx

import swiftlet
from tests.command_line import swiftlet as command
from tests.serving import served_by

FOLDER = Path(__file__).parent
ENCODERS = {
    "encoder": ("fp32", "int8"),
    "static": ("int8_static",),
    "pair/document_encoder": ("int8",),
    "pair/query_encoder": ("fp32", "int8"),
}
"""The directories of encoders, and the precisions that each has."""

INDEXES = {
    "words": {"encoder": "encoder"},
    "changed": {"encoder": "encoder"},
    "flat": {"encoder": "encoder"},
    "lists": {"encoder": "encoder"},
    "codes": {"encoder": "encoder"},
    "pieces": {},  # it has a query encoder of its own
    "several": {"encoder": "pair/query_encoder"},
}
"""The indexes, and the query encoder of each."""

CHANGED = {"changed": "encoder", "several": "pair/document_encoder"}
"""The indexes with changes that are not merged yet, and the document encoder of each."""

TEXTS = ["hot lava and ash", "Where do the bees dance?", "x", "salt " * 60]
QUERY = "snow and salt of the sea"
SEARCHES: dict[str, dict[str, Any]] = {
    "dense": {"mode": "dense", "top_k": 5},
    "page": {"mode": "dense", "top_k": 4, "offset": 4},
    "lexical": {"mode": "lexical", "top_k": 6},
    "hybrid": {"top_k": 8},
    "weight": {"mode": "hybrid", "weight": 0.3, "top_k": 4, "offset": 3},
    "rrf": {"mode": "hybrid", "fusion": "rrf", "top_k": 3},
    "filter": {"filter": {"topic": ["volcano", "tides", "kite"], "year": {"gte": 2003}}},
    "either": {"filter": {"or": [{"author.name": "Ada"}, {"not": {"tags": {"all": ["sea"]}}}]}},
    "dates": {"filter": {"published": {"lt": "2020-05-01"}, "draft": True}, "top_k": 4},
    "min_score": {"mode": "dense", "min_score": 0.2, "top_k": 30},
    "without text": {"include_text": False, "top_k": 2},
    "words": {"highlight": "words", "top_k": 3},
    "sentence": {"highlight": "sentence", "top_k": 3},
    "reranked": {"rerank": 6, "top_k": 8},
}
SHOWN_WHOLE = {"hybrid", "without text", "words", "sentence"}
NEED_WORDS = {"lexical", "weight", "rrf", "words"}
BODIES: dict[str, dict[str, Any]] = {
    **{name: {"query": QUERY, **search} for name, search in SEARCHES.items()},
    "reranked": {"query": QUERY, "rerank": {"top_n": 6}, "top_k": 8},
    "groups": {"query": QUERY, "group_by": "topic", "group_size": 2, "top_k": 4},
}
LINKS = ("/facets", '/facets?filter={"draft":true}', "/documents/kite", "/suggest?q=brea")


def machine() -> dict[str, Any]:
    """The processor and the libraries: the last bits of a score depend on them."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    said = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    facts = {name.strip(): value.strip() for name, value in said.items()}
    flags = facts.get("flags", "").split()
    return {
        "processor": facts.get("model name", ""),
        "vectors": sorted(flag for flag in flags if flag.startswith(("avx", "amx"))),
        **{name: version(name) for name in ("faiss-cpu", "numpy", "onnxruntime", "tantivy")},
    }


def embeddings(folder: Path, name: str) -> dict[str, Any]:
    """The embeddings of a few texts by an encoder directory, in each of its precisions."""
    return {
        f"{precision}, {role}": swiftlet.load_encoder(folder / name, precision=precision)
        .reading(role)
        .encode(TEXTS)
        .tolist()
        for precision in ENCODERS[name]
        for role in ("query", "passage")
    }


def inspected(folder: Path, name: str) -> str:
    """What `swiftlet inspect` says of a directory."""
    result = command("inspect", folder / name)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def of_index(folder: Path, name: str, index: Path | None = None) -> dict[str, Any]:
    """What an index answers in Python, or another `index` in its place."""
    with _opened(folder, name, index) as searcher:
        found = {each: _hits(searcher, each) for each in sorted(_searches(searcher))}
        groups = searcher.search_groups(QUERY, 3, group_by="topic", group_size=2).groups
        return {
            "index": repr(searcher),
            "searches": found,
            "groups": [(each.value, [hit.document_id for hit in each.hits]) for each in groups],
            "facets": [searcher.facets(), searcher.facets({"draft": True})],
            "ids": sorted(searcher.document_ids({"tags": "sea"})),
            "document": asdict(searcher.document("bread-1")),
            "fields": searcher.fields,
            "tombstones": searcher.num_tombstones,
        }


def merged(folder: Path, name: str) -> dict[str, Any]:
    """What an index answers once its changes are merged; `folder` keeps it as it is."""
    with tempfile.TemporaryDirectory() as temporary:
        index = Path(shutil.copytree(folder / name, Path(temporary) / name))
        with swiftlet.write(index, encoder=folder / CHANGED[name]) as writer:
            assert writer.compact()
            assert not writer.compact()
        return of_index(folder, name, index)


def joined(folder: Path) -> dict[str, Any]:
    """What an index that is built from the shards answers."""
    shards = swiftlet.Shards([folder / "shards" / number for number in "12"])
    with tempfile.TemporaryDirectory() as temporary:
        index = Path(temporary) / "index"
        swiftlet.build(shards, index, encoder=folder / "encoder")
        return of_index(folder, "words", index)


def over_http(folder: Path) -> dict[str, Any]:
    """What a service answers with the index that has changes."""
    with _service(folder) as client:
        found = {name: _answer(client, "/search", body) for name, body in BODIES.items()}
        first = client.post("/search", json=BODIES["hybrid"]).json()["next"]
        return {
            **found,
            "next": _answer(client, "/search", {**BODIES["hybrid"], "cursor": first}),
            "batch": _answer(client, "/search/batch", {"queries": [QUERY, "ice"], "top_k": 2}),
            "scores": _answer(client, "/rerank", {"query": QUERY, "documents": TEXTS}),
            "embeddings": _answer(client, "/v1/embeddings", {"input": TEXTS[:1]}),
            "links": [client.get(link).json() for link in LINKS],
        }


def _searches(searcher: swiftlet.Searcher) -> set[str]:
    return SEARCHES.keys() - (set() if "lexical" in searcher.modes else NEED_WORDS)


def _hits(searcher: swiftlet.Searcher, name: str) -> list[Any]:
    found = searcher.search(QUERY, **SEARCHES[name])
    if name in SHOWN_WHOLE:
        whole = [asdict(hit) for hit in found]
        # Later than these artefacts, and without a boost there is none.
        assert {hit.pop("boosted_score") for hit in whole} == {None}
        return [found.num_reranked, *whole]
    return [(hit.document_id, hit.score, hit.rerank_score, hit.passage.start) for hit in found]


@contextmanager
def _opened(folder: Path, name: str, index: Path | None = None) -> Iterator[swiftlet.Searcher]:
    encoder = {option: folder / place for option, place in INDEXES[name].items()}
    precision = "fp32" if name != "several" else None
    with swiftlet.open(
        index or folder / name, **encoder, precision=precision, reranker=folder / "reranker"
    ) as searcher:
        yield searcher


@contextmanager
def _service(folder: Path) -> Iterator[httpx.Client]:
    serve = [sys.executable, "-m", "swiftlet", "serve", folder / "changed", "--port", "0"]
    options = ["--encoder", folder / "encoder", "--reranker", folder / "reranker"]
    variables = {name: value for name, value in os.environ.items() if "SWIFTLET" not in name}
    with (
        served_by([*serve, *options, "--precision", "fp32"], env=variables) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        yield client


def _answer(client: httpx.Client, route: str, body: object) -> dict[str, Any]:
    response = client.post(route, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    if "next" in answer:  # a cursor need not have the same letters
        answer["next"] = True
    return answer
