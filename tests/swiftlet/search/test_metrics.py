"""Indexes of vectors by every metric: what a search finds is what NumPy finds."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import swiftlet
from swiftlet.encoders.missing import MissingEncoder
from swiftlet.errors import CorruptIndexError, InvalidArgumentError, ManifestError
from swiftlet.index.building.adopt import adopt
from swiftlet.index.changes.log import Change
from swiftlet.index.directory import IndexDirectory
from swiftlet.index.parts.search_parts import FixedIndex
from swiftlet.manifest import read_manifest, write_manifest
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document, Embeddings
from tests.vector_indexes import with_vectors

DIM = 24
QUERY = "who kneads the flour and bakes it in an oven"
KINDS = {
    "cosine": {"metric": "inner_product", "normalised": True},
    "inner product": {"metric": "inner_product", "normalised": False},
    "l2": {"metric": "l2", "normalised": False},
    "l2 of normalised": {"metric": "l2", "normalised": True},
}
RANDOM = np.random.default_rng(7)
PLACES = RANDOM.normal(size=(5, DIM)).astype(np.float32)


@pytest.fixture(scope="module", params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def vectors(small_searcher, kind) -> Embeddings:
    found = np.random.default_rng(1).normal(size=(small_searcher.num_passages, DIM))
    if KINDS[kind]["normalised"]:
        found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found.astype(np.float32)


@pytest.fixture(scope="module")
def index(small_index, vectors, kind, tmp_path_factory) -> Path:
    return with_vectors(small_index, tmp_path_factory.mktemp("i") / "index", vectors, **KINDS[kind])


@pytest.fixture(scope="module")
def searcher(index) -> Iterator[Searcher]:
    with swiftlet.open(index) as searcher:
        yield searcher


def expected(
    kind: str, vectors: Embeddings, owners: list[str], place: Embeddings,
    allowed: Callable[[str], bool] = lambda _: True,
) -> list[tuple[str, float]]:  # fmt: skip
    """(document_id, score), best first, by NumPy in double precision."""
    rows, query = vectors.astype(np.float64), place.astype(np.float64)
    if KINDS[kind]["normalised"]:
        query /= np.linalg.norm(query)
    is_l2 = KINDS[kind]["metric"] == "l2"
    scores = -((rows - query) ** 2).sum(axis=1) if is_l2 else rows @ query
    best: dict[str, float] = {}
    for owner, score in zip(owners, scores.tolist(), strict=True):
        if allowed(owner):
            best[owner] = max(score, best.get(owner, score))
    return sorted(best.items(), key=lambda item: (-item[1], item[0]))


def owners_of(searcher: Searcher) -> list[str]:
    rows = range(searcher.num_passages)
    return [found.passage.document_id for found in searcher.parts.store.passages([*rows])]


def check(found: list[tuple[str, float]], best: list[tuple[str, float]]) -> None:
    assert [name for name, _ in found] == [name for name, _ in best]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in best], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", PLACES)
def test_a_dense_search_finds_what_numpy_finds(searcher, kind, vectors, place):
    best = expected(kind, vectors, owners_of(searcher), place)
    for options in ({"top_k": 60}, {"top_k": 7, "offset": 20}):
        hits = searcher.search(embedding=place, **options).hits
        first = options.get("offset", 0)
        check([(h.document_id, h.score) for h in hits], best[first : first + options["top_k"]])
    least = best[4][1]
    assert len(searcher.search(embedding=place, top_k=60, min_score=least - 1e-4).hits) == 5
    hits = searcher.search(embedding=place, filter={"topic": ["bread", "bees", "tides"]}).hits
    some = expected(
        kind, vectors, owners_of(searcher), place, lambda d: d[:4] in ("brea", "bees", "tide")
    )
    check([(h.document_id, h.score) for h in hits], some[:10])


@pytest.mark.parametrize("place", PLACES)
def test_a_sort_takes_the_documents_within_a_share_of_the_best_on_the_scale_of_cosines(
    searcher, kind, vectors, place
):
    best = expected(kind, vectors, owners_of(searcher), place)
    scores = np.array([score for _, score in best])
    if KINDS[kind]["metric"] == "l2":
        length = 1.0 if KINDS[kind]["normalised"] else np.linalg.norm(place)
        scores += length**2 + (vectors.astype(np.float64) ** 2).sum(axis=1).mean()
    answering = {name for (name, _), score in zip(best, scores, strict=True)
                 if score >= 0.75 * scores[0]}  # fmt: skip
    found = searcher.search(embedding=place, top_k=60, sort="length:asc").hits
    assert {hit.document_id for hit in found} == answering
    assert 1 <= len(answering) < 30
    lengths = [hit.metadata["length"] for hit in found]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize("options", [{}, {"weight": 0.3}, {"filter": {"length": [1, 2, 3]}}])
def test_a_hybrid_search_fuses_scores_on_the_scale_of_cosines(searcher, kind, vectors, options):
    lexical = {
        hit.document_id: hit.score
        for hit in searcher.search(QUERY, mode="lexical", top_k=60, min_score=-1).hits
    }
    place, weight = PLACES[0], options.get("weight", searcher.weight)
    owners = owners_of(searcher)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    length = 1.0 if KINDS[kind]["normalised"] else float(np.linalg.norm(place))

    def scaled(score: float) -> float:
        if kind == "cosine":
            return score
        if KINDS[kind]["metric"] == "l2":
            return (score + length**2 + (lengths**2).mean()) / (2 * length * lengths.mean())
        return score / (length * lengths.mean())

    # Of documents of one passage, so that both scores are of the same one.
    single = {name for name in owners if owners.count(name) == 1}
    best = {
        name: weight * scaled(score) + (1 - weight) * lexical.get(name, 0.0)
        for name, score in expected(kind, vectors, owners, place)
    }
    hits = searcher.search(QUERY, embedding=place, mode="hybrid", top_k=60, **options).hits
    assert len(hits) == (60 if "filter" not in options else 36)
    for hit in hits:
        if hit.document_id in single:
            assert hit.score == pytest.approx(best[hit.document_id], abs=2e-5)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    few = searcher.search(QUERY, embedding=place, mode="hybrid", top_k=5, **options).hits
    assert few == hits[:5]
    by_ranks = searcher.search(QUERY, embedding=place, fusion="rrf", top_k=5).hits
    assert len(by_ranks) == 5


@pytest.mark.parametrize("merged", [False, True])
def test_changes_are_found_by_the_metric(index, tmp_path, kind, vectors, searcher, *, merged):
    changed = shutil.copytree(index, tmp_path / "index")
    put = np.random.default_rng(5).normal(size=(2, DIM)).astype(np.float32)
    if KINDS[kind]["normalised"]:
        put /= np.linalg.norm(put, axis=1, keepdims=True)
    document = Document("new", "one two", "New", {"topic": "bread"})
    with swiftlet.write(changed) as writer:
        writer.append([Change(0, "new", document, ((0, 3), (4, 7)), put)], read_manifest(changed))
        writer.delete(["bread-1"])
        if merged:
            assert writer.compact()
    owners = [*owners_of(searcher), "new", "new"]
    rows = np.concatenate((vectors, put))
    before, after = (read_manifest(each) for each in (index, changed))
    assert (after.metric, after.normalised) == (before.metric, before.normalised)
    assert after.details.get("dense_scale") == before.details.get("dense_scale")
    with swiftlet.open(changed) as opened:
        for place in PLACES:
            for filter_, allowed in (
                (None, lambda d: d != "bread-1"),
                ({"topic": "bread"}, lambda d: d == "new" or (d[:5] == "bread" and d[6:] != "1")),
            ):
                best = expected(kind, rows, owners, place, allowed)
                hits = opened.search(embedding=place, top_k=60, filter=filter_).hits
                check([(h.document_id, h.score) for h in hits], best)


def test_texts_are_searched_by_words_alone(searcher, small_searcher):
    assert (searcher.has_encoder, small_searcher.has_encoder) == (False, True)
    assert (searcher.modes[0], small_searcher.modes[0]) == ("lexical", "hybrid")
    found = searcher.search(QUERY, highlight="words").hits
    assert found == small_searcher.search(QUERY, mode="lexical", highlight="words").hits
    fused = searcher.search(QUERY, embedding=PLACES[0]).hits
    assert fused == searcher.search(QUERY, embedding=PLACES[0], mode="hybrid").hits
    assert isinstance(searcher.encoder, MissingEncoder)


@pytest.mark.parametrize(
    "options", [{"mode": "dense"}, {"mode": "hybrid"}, {"highlight": "sentence"}]
)
def test_a_text_without_an_encoder_is_refused_with_the_ways_out(searcher, options):
    ways = "give the embedding, .*words .mode 'lexical'., .*--encoder .*swiftlet distill --index"
    with pytest.raises(InvalidArgumentError, match=ways):
        searcher.search(QUERY, **options)


def test_an_index_without_words_and_encoder_needs_embeddings(index):
    opened = IndexDirectory(index, MissingEncoder(read_manifest(index)))
    parts, manifest, *_ = opened.state
    without = FixedIndex(replace(parts, lexical=None), manifest)
    searcher = Searcher(without, MissingEncoder(manifest).manifest)
    with pytest.raises(InvalidArgumentError, match="a text has no embedding"):
        searcher.search(QUERY)
    assert len(searcher.search(embedding=PLACES[0]).hits) == 10
    opened.close()


def test_a_manifest_with_another_metric_than_the_index_is_refused(index, kind, tmp_path):
    copy = shutil.copytree(index, tmp_path / "index")
    manifest = read_manifest(copy)
    other = "inner_product" if manifest.metric == "l2" else "l2"
    write_manifest(copy, replace(manifest, metric=other))
    with pytest.raises(CorruptIndexError, match=f"but its manifest says {other}"):
        swiftlet.open(copy)
    write_manifest(copy, replace(manifest, metric="hamming"))
    with pytest.raises(ManifestError, match="metric 'hamming', but inner_product or l2 is"):
        swiftlet.open(copy)


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "l2"])
def test_the_default_type_of_a_large_index_finds_the_nearest_by_each_metric(metric, tmp_path):
    random = np.random.default_rng(3)
    near = random.normal(size=(60, DIM))[random.integers(60, size=2500)]
    vectors = (2 * near + random.normal(size=near.shape)).astype(np.float32)
    adopt(vectors, tmp_path / "index", metric=metric)  # type: ignore[arg-type]
    rows = vectors.astype(np.float64)
    if metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    shares = []
    with swiftlet.open(tmp_path / "index") as searcher:
        assert "PQ" in searcher.index_manifest.details["factory"]
        for place in vectors[:40] + random.normal(size=(40, DIM)).astype(np.float32):
            asked = place / (np.linalg.norm(place) if metric == "cosine" else 1.0)
            scores = -((rows - asked) ** 2).sum(axis=1) if metric == "l2" else rows @ asked
            hits = searcher.search(embedding=place).hits
            own = [scores[int(hit.document_id)] for hit in hits]
            found = [hit.score for hit in hits]
            np.testing.assert_allclose(found, own, atol=0.02 * np.abs(scores).max())
            names = {f"{row}" for row in np.argsort(-scores)[:10]}
            shares.append(len(names & {hit.document_id for hit in hits}) / 10)
        assert searcher.index_manifest.details["recall"]["recall@10 within 1%"] > 0.95
    assert np.mean(shares) > 0.9


@pytest.mark.parametrize("address", ["milvus://localhost:1/x", "postgresql://localhost:1/d/x"])
def test_only_cosines_are_pushed_to_servers(index, kind, address):
    sentence = "servers are searched by cosine: search the index directory, or adopt its vectors"
    if kind == "cosine":
        sentence = "made of vectors without an encoder"
    with pytest.raises(swiftlet.RetrievalError, match=sentence):
        swiftlet.push(index, address)
