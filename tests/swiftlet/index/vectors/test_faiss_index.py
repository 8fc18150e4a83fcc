import os
import re
import subprocess
import sys
from ast import literal_eval

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftlet.errors import CorruptIndexError, InvalidArgumentError, StorageError
from swiftlet.index.vectors.faiss_index import (
    EXACT_UP_TO,
    SCANNED_UP_TO,
    FaissIndex,
    FaissParameters,
)
from tests.swiftlet.index.vectors.points import DIM, clustered

SIZE = 3000
EMBEDDINGS = clustered(SIZE, 1)
QUERIES = clustered(20, 2)


def built(factory: str) -> FaissIndex:
    index = FaissIndex.create(factory, DIM)
    index.train(EMBEDDINGS[:600])
    index.add(EMBEDDINGS[:1000], threads=2)
    index.add(EMBEDDINGS[1000:], threads=2)
    probes = index.most_probes if "HNSW" not in factory else 64
    index.parameters = FaissParameters(probes=probes, refine_factor=4, num_candidates=100)
    return index


def test_equal_embeddings_have_equal_scores_wherever_they_stand():
    for factory in ("Flat", "IVF8,Flat", "SQ8", "HNSW16"):
        index = FaissIndex.create(factory, DIM)
        repeated = np.tile(EMBEDDINGS[:8], (125, 1))
        index.train(EMBEDDINGS)
        index.add(repeated)
        scores, rows = index.search(QUERIES[0], 1000)
        assert len({score for score, row in zip(scores, rows, strict=True) if row % 8 == 3}) <= 1


def test_a_search_for_more_candidates_visits_more_lists():
    index = built("IVF64,Flat")
    assert index.most_probes == 64
    index.parameters = FaissParameters(probes=2, num_candidates=100)
    few = [len(index.search(query, 100)[1]) for query in QUERIES]
    many = [len(index.search(query, 2000)[1]) for query in QUERIES]
    # 2 of 64 lists hold about 94 of 3000 rows, 40 of them about 1900.
    assert np.mean(few) < 100
    assert np.mean(many) > 1000


def test_refinement_scores_more_candidates_again():
    index = built("IVF8,PQ8x4fs,Refine(Flat)")
    assert index.refines
    assert not built("IVF8,Flat").refines
    nearest = np.argmax(QUERIES @ EMBEDDINGS.T, axis=1)
    found = []
    for refine_factor in (1, 16):
        index.parameters = FaissParameters(probes=8, refine_factor=refine_factor)
        tops = [index.search(query, 5)[1].tolist() for query in QUERIES]
        found.append(sum(row in top for row, top in zip(nearest, tops, strict=True)))
    assert found[0] < found[1] == len(QUERIES)


@pytest.mark.parametrize(
    "factory",
    [
        *["", "Flatt", "IVF8", "PQ7x8", "IVF-1,Flat", "IVF99999999999,Flat", "IVF8(,Flat", "LSH"],
        # These FAISS would accept, and end the process later.
        *["HNSW0", "HNSW1", "IVF0,Flat", "IVF8_HNSW0,Flat", "NSG0", "PQ32x4fs_0"],
    ],
)
def test_a_factory_string_that_faiss_cannot_use_is_refused(factory):
    with pytest.raises(
        InvalidArgumentError, match=r"^'.*' is no (usable )?FAISS index.*: "
    ) as caught:
        FaissIndex.create(factory, DIM)
    message = str(caught.value)
    assert message.startswith(repr(factory))
    assert "\n" not in message
    assert "faiss/" not in message


def test_too_few_embeddings_to_train_on_are_refused():
    with pytest.raises(
        InvalidArgumentError,
        match=r"cannot be trained on 60 embeddings: Number of training points \(60\)",
    ):
        FaissIndex.create("IVF100,Flat", DIM).train(EMBEDDINGS[:60])


def test_an_index_that_cannot_number_its_rows_is_refused():
    with pytest.raises(InvalidArgumentError, match="takes no embeddings: add does not make sense"):
        FaissIndex.create("IDMap,Flat", DIM).add(EMBEDDINGS)


# FAISS overlooks a part of the last number of a mapped file, which the manifest's hash does not.
@pytest.mark.parametrize("kept", [3, 20, 1000, -8])
def test_a_file_that_is_no_whole_index_is_refused_by_name(tmp_path, kept):
    path = tmp_path / "index.faiss"
    built("IVF8,Flat").save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CorruptIndexError, match=r"index\.faiss is no FAISS index: "):
        FaissIndex.load(path)


@pytest.mark.parametrize("missing_bytes", [1, 10, 5000, 384_000])
def test_an_index_that_does_not_fit_on_the_disk_is_not_reported_as_saved(
    tmp_path, storage_ends_at, missing_bytes
):
    index = built("Flat")
    index.save(tmp_path / "whole")
    size_bytes = (tmp_path / "whole").stat().st_size
    with (
        storage_ends_at(size_bytes - missing_bytes),
        pytest.raises(StorageError, match=r"^cannot write .*/cut: File too large$"),
    ):
        index.save(tmp_path / "cut")


def test_training_an_index_prints_nothing(capfd):
    index = FaissIndex.create("IVF8,PQ16x4fs,Refine(SQ8)", DIM)
    index.train(EMBEDDINGS[:100])
    index.add(EMBEDDINGS[:100])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("num_passages", "factory"),
    [
        (1, "Flat"),
        (EXACT_UP_TO, "Flat"),
        (EXACT_UP_TO + 1, "PCAR192,IVF1,PQ64x4fs,Refine(SQ8)"),
        (SCANNED_UP_TO, "PCAR192,IVF1,PQ64x4fs,Refine(SQ8)"),
        (SCANNED_UP_TO + 1, "PCAR192,IVF2828,PQ64x4fs,Refine(SQ8)"),
        (10_000_000, "PCAR192,IVF6324,PQ64x4fs,Refine(SQ8)"),
        (10**10, "PCAR192,IVF65536,PQ64x4fs,Refine(SQ8)"),
    ],
)
def test_the_type_follows_the_size(num_passages, factory):
    assert FaissIndex.default_factory(num_passages, 384) == factory


def test_the_widest_vectors_get_a_type_without_a_table_of_their_width():
    assert FaissIndex.default_factory(EXACT_UP_TO + 1, 8_193) == "SQ8"


@given(st.integers(1, 10**9), st.integers(2, 1100))
def test_every_size_and_width_has_an_index_that_can_be_trained(num_passages, dim):
    factory = FaissIndex.default_factory(num_passages, dim)
    if found := re.search(r"PCAR(\d+),.*PQ(\d+)x4fs", factory):
        width, codes = map(int, found.groups())
        assert width <= dim
        assert width % codes == 0
    if found := re.search(r"IVF(\d+),", factory):
        assert 39 * int(found[1]) <= FaissIndex.training_size(num_passages) <= num_passages


@pytest.mark.parametrize("dim", [6, 17, 18, 32, 48, 100, 384])
@pytest.mark.parametrize("num_passages", [EXACT_UP_TO + 1, SCANNED_UP_TO + 1])
def test_faiss_builds_the_type_for_any_width(dim, num_passages):
    embeddings = np.random.default_rng(0).normal(size=(1000, dim)).astype(np.float32)
    factory = FaissIndex.default_factory(num_passages, dim).replace("IVF2828", "IVF4")
    index = FaissIndex.create(factory, dim)
    index.train(embeddings)
    index.add(embeddings)
    assert len(index.search(embeddings[0], 1000)[1]) == 1000


def test_a_pca_keeps_the_order_of_inner_products():
    shifted = EMBEDDINGS + EMBEDDINGS.mean(axis=0)
    index = FaissIndex.create(f"PCA{DIM},Flat", DIM)
    index.train(shifted)
    index.add(shifted)
    for query in shifted[:20]:
        scores, rows = index.search(query, 10)
        assert rows.tolist() == np.argsort(-(shifted @ query))[:10].tolist()
        np.testing.assert_allclose(scores, np.sort(shifted @ query)[:-11:-1], rtol=1e-4)


def test_reserved_rows_are_added_without_more_memory_for_codes():
    script = f"""
import resource, numpy as np
from swiftlet.index.vectors.faiss_index import FaissIndex

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

rows = np.random.default_rng(0).normal(size=(4096, {DIM})).astype(np.float32)
index = FaissIndex.create("IVF1,PQ8x4fs,Refine(Flat)", {DIM})
index.train(rows)
index.add(rows)
before = peak()
index.reserve(4096 * 257)
for _ in range(256):
    index.add(rows)
print(peak() - before, index.size)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    added, size = map(int, done.stdout.split())
    assert size == 4096 * 257
    assert added < 1.25 * size * (4 * DIM + 4 + 8)


@pytest.mark.parametrize(("given", "policy"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_the_threads_of_faiss_sleep_while_they_wait_unless_the_user_says_otherwise(given, policy):
    script = "import os; from swiftlet.index.vectors import faiss_index; print(dict(os.environ))"
    environment = {**os.environ, "OMP_DISPLAY_ENV": "true"}
    environment.pop("OMP_WAIT_POLICY", None)
    if given:
        environment["OMP_WAIT_POLICY"] = given
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert f"OMP_WAIT_POLICY = '{policy}'" in done.stderr
    assert literal_eval(done.stdout).get("OMP_WAIT_POLICY") == given
