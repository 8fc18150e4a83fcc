import random
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.errors import (
    CorruptIndexError,
    EmbeddingSpaceMismatch,
    ManifestError,
    QueryError,
    RetrievalError,
)
from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.documents.writer import write_documents
from swiftlet.index.parts.local_parts import BaseParts
from swiftlet.index.parts.search_parts import FixedIndex
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.faiss_search import FaissParameters
from swiftlet.manifest import Manifest, read_manifest, write_manifest
from swiftlet.progress import Silence
from swiftlet.search.searcher import Searcher
from swiftlet.search.stages import STAGE_NAMES, STAGES
from swiftlet.search.stages.state import SearchState
from swiftlet.text import check_query, normalise
from swiftlet.types import Document, Embeddings

Corpus = dict[str, list[tuple[float, float]]]
"""document_id -> the embedding of each of its passages"""

MANIFEST = Manifest("index", dim=2, embedding_space="plane", files={}, created_by="a test")


class Plane:
    """An encoder of the plane: a query is the two numbers of its embedding."""

    dim = width = 2
    max_tokens = 2
    embedding_space = "plane"

    def tokenise(self, text: str) -> list[int]:
        return [int(number) for number in text.split()]

    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        return np.array(token_ids, dtype=np.float32)

    def encode(self, texts: Sequence[str]) -> Embeddings:
        return np.stack([self.embed(self.tokenise(text)) for text in texts])


class Cache(dict[str, Embeddings]):
    """An embedding cache without bounds."""

    put = dict.__setitem__


@pytest.fixture(scope="module")
def search_plane(shipped_encoder, tmp_path_factory) -> Callable[..., Searcher]:
    splitter = PassageSplitter(shipped_encoder.tokenizer, 16, 0)

    def make(corpus: Corpus, factory: str = "Flat") -> Searcher:
        path = tmp_path_factory.mktemp("plane") / "documents.sqlite"
        documents = [
            Document(
                document_id,
                "a " * len(passages),
                sections=tuple((2 * n, 2 * n + 1) for n in range(len(passages))),
            )
            for document_id, passages in corpus.items()
        ]
        stored = write_documents(path, documents, splitter, Silence())
        embeddings = np.array([row for rows in corpus.values() for row in rows], dtype=np.float32)
        index = FaissIndex.create(factory, 2)
        index.train(embeddings)
        index.add(embeddings)
        parts = BaseParts(
            encoder=Plane(),
            index=index,
            passage_to_document=stored.passage_to_document,
            store=DocumentStore(path),
        )
        return Searcher(FixedIndex(parts, MANIFEST), MANIFEST)

    return make


def brute_force(corpus: Corpus, query: tuple[int, int]) -> list[tuple[str, float, int]]:
    """(document_id, score, number of the winning passage), best first, ties by document_id."""
    found = []
    for document_id, passages in corpus.items():
        scores = [query[0] * x + query[1] * y for x, y in passages]
        found.append((document_id, max(scores), scores.index(max(scores))))
    return sorted(found, key=lambda item: (-item[1], item[0]))


# Small whole numbers: every product is exact, and ties abound.
COORDINATES = st.integers(-2, 2)
PASSAGES = st.lists(st.tuples(COORDINATES, COORDINATES), min_size=1, max_size=6)
CORPORA = st.dictionaries(
    st.text("abAB10-é光", min_size=1, max_size=3), PASSAGES, min_size=1, max_size=120
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CORPORA, st.tuples(COORDINATES, COORDINATES), st.integers(1, 130))
def test_a_search_finds_the_same_as_brute_force(search_plane, corpus, query, top_k):
    searcher = search_plane(corpus)
    hits = searcher.search(f"{query[0]} {query[1]}", top_k).hits
    assert [
        (
            hit.document_id,
            hit.score,
            int(hit.passage.passage_id.removeprefix(f"{hit.document_id}#")),
        )
        for hit in hits
    ] == brute_force(corpus, query)[:top_k]
    searcher.close()


@pytest.mark.parametrize("factory", ["Flat", "IVF16,Flat", "HNSW8"])
def test_a_search_finds_exactly_top_k_documents_or_all_there_are(search_plane, factory):
    angles = np.linspace(0, 6, 400)
    embeddings = [*zip(np.cos(angles).tolist(), np.sin(angles).tolist(), strict=True)]
    random.Random(0).shuffle(embeddings)
    corpus = {f"{n:03}": embeddings[4 * n : 4 * n + 4] for n in range(100)}
    searcher = search_plane(corpus, factory)
    searcher.parts.index.parameters = FaissParameters(probes=1)
    for top_k in (*range(1, 103), 1000, 10**18):
        hits = searcher.search("0 1", top_k).hits
        assert len({hit.document_id for hit in hits}) == len(hits) == min(top_k, 100)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_document_that_owns_thousands_of_the_best_passages_leaves_room_for_others(search_plane):
    corpus: Corpus = {f"other {n}": [(0.5 - n / 100, 0)] for n in range(20)}
    corpus["greedy"] = [(1 - n / 10_000, 0) for n in range(4000)]
    searcher = search_plane(corpus)
    hits = searcher.search("1 0", 15).hits
    assert [hit.document_id for hit in hits] == ["greedy", *(f"other {n}" for n in range(14))]
    assert hits[0].passage.passage_id == "greedy#0"


def test_of_a_thousand_equal_documents_those_with_the_smallest_ids_are_found(search_plane):
    ids = [f"{n:04}" for n in range(1000)]
    shuffled = random.Random(0).sample(ids, 1000)
    searcher = search_plane({document_id: [(1, 0)] for document_id in shuffled})
    for top_k in (1, 10, 100):
        assert [hit.document_id for hit in searcher.search("1 0", top_k).hits] == ids[:top_k]


def test_each_stage_has_its_time(small_searcher):
    query = "How do volcanoes erupt?"
    boost = {"field": "length", "half_value": 3, "weight": 0.1}
    everything: Any = {"filter": {}, "highlight": "words", "boost": boost, "sort": "length:asc"}
    seconds = small_searcher.search(query, **everything).stage_seconds
    assert small_searcher.stage_names == STAGE_NAMES
    assert STAGE_NAMES == (
        "filter", "tokenise", "encode", "dense", "lexical", "fuse", "aggregate", "boost",
        "sort", "rerank", "fetch", "highlight",
    )  # fmt: skip
    assert len(seconds) == len(STAGE_NAMES)
    ran = {name: 0 < each < 1 for name, each in zip(STAGE_NAMES, seconds, strict=True)}
    assert [name for name in STAGE_NAMES if not ran[name]] == ["rerank"]
    lexical = small_searcher.search(query, mode="lexical").stage_seconds
    ran = {name for name, each in zip(STAGE_NAMES, lexical, strict=True) if each}
    assert ran == {"lexical", "aggregate", "fetch"}


def test_a_stage_that_has_nothing_to_do_has_no_time(small_searcher):
    cache = Cache()
    first = small_searcher.search("How do\tvolcanoes erupt?", cache=cache)
    again = small_searcher.search("How do volcanoes erupt?", cache=cache)
    assert (first.cached, again.cached) == (False, True)
    assert again.hits == first.hits
    seconds = dict(zip(STAGE_NAMES, again.stage_seconds, strict=True))
    assert seconds["tokenise"] == seconds["encode"] == 0
    assert min(seconds["dense"], seconds["aggregate"], seconds["fetch"]) > 0


class OddDocuments:
    """A stage that leaves out the passages of every other document."""

    name = "filter"
    repeats = True

    def run(self, search: SearchState) -> bool:
        kept = search.generation.parts.passage_to_document[search.candidates.rows] % 2 == 1
        search.candidates = search.candidates.at(kept)
        return True


def test_a_stage_is_added_by_the_list_alone_and_a_filter_leaves_enough_documents(
    search_plane, monkeypatch
):
    place = STAGE_NAMES.index("aggregate")
    stages = (*STAGES[:place], OddDocuments(), *STAGES[place:])
    monkeypatch.setattr("swiftlet.search.open_index.STAGES", stages)
    # The 200 best documents are left out, so the first candidates give no hit.
    corpus: Corpus = {f"{2 * n:04}": [(1 - n / 1000, 0)] for n in range(200)}
    corpus |= {f"{2 * n + 1:04}": [(0.5 - n / 1000, 0)] for n in range(200)}
    searcher = search_plane(corpus)
    result = searcher.search("1 0", 10)
    assert searcher.stage_names == (*STAGE_NAMES[:place], "filter", *STAGE_NAMES[place:])
    assert len(result.stage_seconds) == len(stages)
    assert [hit.document_id for hit in result.hits] == [f"{2 * n + 1:04}" for n in range(10)]
    assert len(searcher.search("1 0", 300)) == 200


def test_a_closed_searcher_refuses_searches_and_documents(search_plane):
    with search_plane({"a": [(1, 0)]}) as searcher:
        assert searcher.document("a").document_id == "a"
    searcher.close()
    for ask in (lambda: searcher.search("1 0"), lambda: searcher.document("a")):
        with pytest.raises(RetrievalError, match=r"^\S+ is closed: search before close\(\), or "):
            ask()
    assert searcher.num_documents == 1


def test_the_stages_that_repeat_are_next_to_each_other():
    assert re.fullmatch("0*1+0*", "".join(str(int(stage.repeats)) for stage in STAGES))
    assert len(set(STAGE_NAMES)) == len(STAGES)


def test_a_checked_query_is_searched_as_it_is(small_searcher):
    query = check_query(" who\tmakes\u2003honey ")
    assert query == " who makes honey "
    assert check_query(query) is normalise(query) is query
    assert small_searcher.search(query).hits == small_searcher.search("who makes honey").hits


@pytest.mark.parametrize(
    ("query", "topic"),
    [
        ("How does lava come out of the ground?", "volcano"),
        ("baking a loaf", "bread"),
        ("why are there high and low waters", "tides"),
        ("who makes honey", "bees"),
    ],
)
def test_hits_match_the_request_and_have_the_offsets_of_their_passages(
    small_searcher, small_documents, query, topic
):
    hits = small_searcher.search(query, 3).hits
    documents = {document.document_id: document for document in small_documents}
    for hit in hits:
        document = documents[hit.document_id]
        assert (hit.title, hit.metadata) == (document.title, document.metadata)
        assert hit.metadata["topic"] == topic
        assert hit.passage.text == document.text[hit.passage.start : hit.passage.end] != ""
        assert hit.passage.document_id == hit.document_id
        assert small_searcher.document(hit.document_id) == document
    without = small_searcher.search(query, 3, include_text=False).hits
    assert without == [replace(hit, passage=replace(hit.passage, text="")) for hit in hits]


def test_the_same_query_has_the_same_hits_to_the_last_bit_from_eight_threads(small_searcher):
    queries = ["honey", "a piece of chess music", "light " * 300, "光", "How is glass made?"] * 20
    expected = [small_searcher.search(query, 20).hits for query in queries[:5]] * 20
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda query: small_searcher.search(query, 20).hits, queries)
        assert list(found) == expected


@pytest.mark.parametrize("query", ["", " ", "\n\t\u3000\u2028", "\x07\x1f"])
def test_a_blank_query_is_refused(small_searcher, query):
    with pytest.raises(QueryError, match=r"^the query is empty: at least one character"):
        small_searcher.search(query)


@pytest.mark.parametrize(
    ("query", "problem"),
    [("a\0b", "holds a NUL character"), ("a\ud83d b", "holds a lone surrogate")],
)
def test_a_query_that_is_no_text_is_refused(small_searcher, query, problem):
    with pytest.raises(QueryError, match=f"^the query {problem}"):
        small_searcher.search(query)


def test_an_encoder_of_another_space_is_refused_with_both_names(small_index, altered_encoder):
    shipped = read_manifest(DEFAULT_ENCODER)
    encoder = altered_encoder(dim=128, details={**shipped.details, "name": "a stranger"})
    with pytest.raises(EmbeddingSpaceMismatch) as caught:
        Searcher.open(small_index, encoder)
    message = str(caught.value)
    assert "'a stranger'" in message
    assert repr(shipped.details["name"]) in message
    assert "gives 128 numbers, the index has 384" in message


@pytest.mark.parametrize(
    ("details", "error", "problem"),
    [
        ({"search_effort": None}, ManifestError, "search_effort"),
        ({"search_effort": {"speed": 9}}, CorruptIndexError, "index is damaged: "),
    ],
)
def test_an_index_without_valid_search_parameters_in_its_manifest_is_refused(
    index, details, error, problem
):
    manifest = read_manifest(index)
    write_manifest(index, replace(manifest, details={**manifest.details, **details}))
    with pytest.raises(error, match=problem):
        Searcher.open(index, DEFAULT_ENCODER)


def test_parts_of_different_indexes_are_refused(search_plane):
    one, other = search_plane({"a": [(1, 0)]}), search_plane({"a": [(1, 0), (0, 1)]})
    assert Searcher(FixedIndex(one.parts, MANIFEST), MANIFEST).num_passages == 1
    for name in ("index", "passage_to_document", "store"):
        mixed = replace(one.parts, **{name: getattr(other.parts, name)})
        with pytest.raises(CorruptIndexError, match="parts of the index do not belong together"):
            Searcher(FixedIndex(mixed, MANIFEST), MANIFEST)
