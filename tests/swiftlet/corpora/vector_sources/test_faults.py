"""Bad vectors of every reader: one sentence with the row, and what is expected."""

import json
import os
import tracemalloc
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import swiftlet
from swiftlet.corpora.fields import Fields
from swiftlet.corpora.vector_sources import open_vectors
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.errors import CollectionError

VECTORS = np.random.default_rng(0).normal(size=(1_500, 4)).astype(np.float32)


def write(folder: Path, kind: str, vectors: Sequence[Any]) -> Path:
    path = folder / f"vectors{kind}"
    match kind:
        case ".npy":
            np.save(path, np.array(vectors))
        case ".npz":
            np.savez(path, vectors=np.array(vectors))
        case ".fvecs":
            parts = [np.int32(len(each)).tobytes() + each.tobytes() for each in vectors]
            path.write_bytes(b"".join(parts))
        case ".jsonl":
            rows = [
                {"id": f"{number}", "v": None if each is None else np.asarray(each).tolist()}
                for number, each in enumerate(vectors)
            ]
            path.write_text("\n".join(json.dumps(row) for row in rows))
        case ".parquet":
            column = pyarrow.array([*vectors], pyarrow.list_(pyarrow.float32()))
            pyarrow.parquet.write_table(pyarrow.table({"v": column}), path)
    return path


def read(path: Path, **settings: Any) -> list[Any]:
    return [*open_vectors(path, **settings).blocks()]


KINDS = [".npy", ".npz", ".fvecs", ".jsonl", ".parquet"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, 1e39])
def test_a_vector_that_is_zero_or_not_finite_is_named(kind, value, tmp_path):
    if kind == ".jsonl" and not np.isfinite(value):
        value = 1e39  # JSON has no others
    vectors = VECTORS.astype(np.float64 if value == 1e39 and kind != ".fvecs" else np.float32)
    with np.errstate(over="ignore"):
        vectors[1_203] = value
    problem = "is zero" if value == 0 else "has a number that is not finite"
    with pytest.raises(CollectionError, match=f"vectors{kind}: row 1,204: the vector {problem}"):
        read(write(tmp_path, kind, vectors))


@pytest.mark.parametrize("number", [1e17, -1e30])
@pytest.mark.parametrize("kind", KINDS)
def test_a_number_whose_square_overflows_is_refused(kind, number, tmp_path):
    vectors = VECTORS[:9].copy()
    vectors[7, 1] = number
    with pytest.raises(CollectionError, match=r"row 8: the vector has a number beyond 1e\+17"):
        read(write(tmp_path, kind, vectors))


@pytest.mark.parametrize("value", ["x" * 1_000_000, True, 10**400, None])
def test_one_value_that_is_no_number_costs_no_memory_for_each(value, tmp_path):
    path = tmp_path / "vectors.jsonl"
    rows = [{"id": each, "v": [0.5] * 5_000} for each in "ab"]
    rows[1]["v"] = [value, *[0.5] * 4_999]
    path.write_text("\n".join(map(json.dumps, rows)))
    tracemalloc.start()
    try:
        with pytest.raises(CollectionError, match=r"row 2: there is .*, not a list of numbers"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [".fvecs", ".jsonl", ".parquet"])
@pytest.mark.parametrize("row", [7, 1_203])
def test_a_vector_of_another_width_is_named(kind, row, tmp_path):
    vectors = [*VECTORS]
    vectors[row] = VECTORS[row][:3]
    problem = f"row {row + 1:,}: the vector has 3 numbers where 4 are expected"
    with pytest.raises(CollectionError, match=problem):
        read(write(tmp_path, kind, vectors))


@pytest.mark.parametrize("kind", [".jsonl", ".parquet"])
def test_a_row_without_a_vector_is_named(kind, tmp_path):
    vectors: list[Any] = [*VECTORS]
    vectors[1_203] = None
    with pytest.raises(CollectionError, match="row 1,204: it has no vector"):
        read(write(tmp_path, kind, vectors))


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file_is_one_sentence(kind, tmp_path):
    path = write(tmp_path, kind, VECTORS)
    content = path.read_bytes()
    for share in (0.0, 0.0031, 0.4003, 0.9001):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(CollectionError, match=f"vectors{kind}"):
            read(path)


def test_an_array_that_ends_too_early_is_to_be_copied_again(tmp_path):
    path = write(tmp_path, ".npy", VECTORS)
    content = path.read_bytes()
    for length in (0, 40, len(content) - 9):
        path.write_bytes(content[:length])
        with pytest.raises(CollectionError, match="the file ends too early: copy it again"):
            open_vectors(path)


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(3), r"an array \(3,\) of float64 where numbers \(n, width\)"),
        (np.array([["a"]]), "of <U1 where numbers"),
        (np.zeros(5, "i4,f4"), "where numbers"),
        (np.zeros(5, [("width", "<i4"), ("vector", "<f4", (8,))]), "where numbers"),
        (np.empty((0, 4)), "there is no vector"),
        (np.array([[{}]]), r"there is an array \(1, 1\) of Python objects: save its numbers"),
        (np.ones((2, 1 << 17)), "have 131,072 numbers where 1 to 65,536"),
    ],
)
def test_an_array_of_anything_else_is_refused(array, sentence, tmp_path):
    np.save(tmp_path / "vectors.npy", array, allow_pickle=True)
    with pytest.raises(CollectionError, match=sentence):
        open_vectors(tmp_path / "vectors.npy")


@pytest.mark.parametrize("kind", [np.float16, np.int8, np.float64, ">f4"])
def test_numbers_of_other_kinds_become_floats(kind, tmp_path):
    numbers = np.arange(1, 13).reshape(3, 4).astype(kind)
    np.save(tmp_path / "vectors.npy", numbers)
    (block,) = read(tmp_path / "vectors.npy")
    np.testing.assert_array_equal(block.embeddings, numbers.astype(np.float32))
    assert [row["id"] for row in block.rows] == ["0", "1", "2"]


@pytest.mark.parametrize("kind", [".npy", ".npz", ".fvecs"])
def test_wide_vectors_come_in_smaller_blocks(kind, tmp_path):
    vectors = np.ones((100, 1 << 16), np.float32)
    blocks = [len(each.rows) for each in read(write(tmp_path, kind, vectors))]
    assert blocks == [64, 36]


def test_several_arrays_and_columns_need_a_choice(tmp_path):
    np.savez(tmp_path / "v.npz", a=VECTORS, b=VECTORS + 1, names=np.array(["x"]))
    with pytest.raises(CollectionError, match="several arrays, a, b: --vector-field"):
        open_vectors(tmp_path / "v.npz")
    (first, *_) = read(tmp_path / "v.npz", vector_field="b")
    np.testing.assert_array_equal(first.embeddings, VECTORS[:1_000] + 1)
    with pytest.raises(CollectionError, match="no array of vectors is called 'c'; there are a, b"):
        open_vectors(tmp_path / "v.npz", vector_field="c")
    rows = [{"id": "a", "v": [1.0, 2.0], "w": [2.0, 1.0], "tags": ["x", "y"]}]
    (tmp_path / "v.jsonl").write_text(json.dumps(rows[0]))
    with pytest.raises(CollectionError, match="several fields, v, w: --vector-field"):
        open_vectors(tmp_path / "v.jsonl")
    (block,) = read(tmp_path / "v.jsonl", vector_field="w")
    assert block.rows == [{"id": "a", "v": [1.0, 2.0], "tags": ["x", "y"]}]


@pytest.mark.parametrize("kind", [".jsonl", ".parquet"])
def test_a_table_without_vectors_says_so(kind, tmp_path):
    path = tmp_path / f"rows{kind}"
    rows = {"id": ["a", "b"], "text": ["Bees.", "Cats."]}
    if kind == ".parquet":
        pyarrow.parquet.write_table(pyarrow.table(rows), path)
    else:
        path.write_text('{"id": "a", "text": "Bees."}')
    with pytest.raises(CollectionError, match=r"of vectors among id, text: .* swiftlet index$"):
        open_vectors(path)


def test_other_names_of_fields_are_those_of_the_table_itself(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"key": "a", "body": "Bees.", "n": 1, "v": [1, 2]}\n{"body": "x", "v": [1, 2]}'
    )
    source = open_vectors(path, fields=Fields(id="key", text=["body"]))
    with pytest.raises(CollectionError, match=r"row 2: there is no 'key'; the fields are body"):
        [*source.blocks()]


@pytest.mark.parametrize("ids", [None, ["a", "b"]])
def test_a_bad_line_of_the_texts_cannot_be_left_out(ids, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"id": "a", "text": "Bees."}\n{"id": "b"}\n')
    with pytest.raises(CollectionError, match='line 2: there is no "text"') as refused:
        [*open_vectors(VECTORS[:2], texts=texts, ids=ids).blocks()]
    assert "--text-field" in f"{refused.value}"
    assert "skip" not in f"{refused.value}"


@pytest.mark.parametrize("count", [1_499, 1_501])
def test_counts_that_differ_are_both_in_the_sentence(count, tmp_path):
    path = write(tmp_path, ".npy", VECTORS)
    texts = [{"id": f"{number}", "text": "Bees."} for number in range(count)]
    with pytest.raises(CollectionError, match=f"1,500 vectors for {count:,} documents"):
        read(path, texts=texts)
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(f"id {number}" for number in range(count)))
    with pytest.raises(CollectionError, match=f"{count:,} ids for 1,500 vectors in .*vectors.npy"):
        open_vectors(path, ids=ids)


def test_ids_come_from_lines_and_from_arrays_and_none_comes_twice(tmp_path):
    path = write(tmp_path, ".npy", VECTORS[:3])
    (tmp_path / "ids.txt").write_text("a\nb\nc\n")
    for name, array in {"i": np.array([5, 6, 7]), "u": np.array(["x", "y", "z"])}.items():
        np.save(tmp_path / f"{name}.npy", array)
    for name, expected in {"ids.txt": "abc", "i.npy": "567", "u.npy": "xyz"}.items():
        (block,) = read(path, ids=tmp_path / name)
        assert [row["id"] for row in block.rows] == [*expected]
    with pytest.raises(CollectionError, match="the ids: row 3: the id 'a' came before"):
        open_vectors(path, ids=["a", "b", "a"])
    with pytest.raises(CollectionError, match="the ids: row 2: the id is empty"):
        open_vectors(path, ids=["a", "", "b"])


def test_what_was_meant_is_said_of_ids_and_fields_in_the_wrong_place(tmp_path):
    place = write(tmp_path, ".npz", VECTORS[:2])
    with pytest.raises(CollectionError, match=r"an id a line, or an array as \.npy, is expected"):
        read(place, ids=place)
    notes = list[str]()
    np.savez(place, vectors=VECTORS[:2], names=["a", "b"], more=["c"])
    read(place, note=notes.append)
    assert [each.partition(":")[0] for each in notes] == ["the array 'names' is not used"]
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"title": "a"}\n{"title": "b"}\n')
    with pytest.raises(CollectionError, match="'title' is the id already"):
        read(place, texts=texts, fields=Fields(id="title", text=("title",)))


def test_an_id_that_no_document_has_is_named():
    texts = [{"id": "a", "text": "Bees."}, {"id": "c", "text": "Cats."}]
    (block,) = open_vectors(VECTORS[:2], ids=["c", "a"], texts=texts).blocks()
    assert [(row["id"], row["text"]) for row in block.rows] == [("c", "Cats."), ("a", "Bees.")]
    source = open_vectors(VECTORS[:2], ids=["a", "b"], texts=texts)
    with pytest.raises(CollectionError, match="the array: row 2: no document has the id 'b'"):
        [*source.blocks()]


def test_rows_without_ids_are_not_paired_with_texts(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"v": [1, 2]}')
    source = open_vectors(path, texts=[{"id": "a", "text": "Bees."}])
    with pytest.raises(CollectionError, match=r"row 1: there is no id to pair .*--ids"):
        [*source.blocks()]


def test_what_export_vectors_wrote_comes_back_to_the_last_bit(tmp_path):
    documents = [
        {"id": f"d{number}", "title": "T", "text": f"Volcano {number}. " * 40, "n": [number, {}]}
        for number in range(4)
    ]
    settings = {"encoder": DEFAULT_QUERY_ENCODER, "passage_tokens": 32, "overlap_tokens": 0}
    swiftlet.build(documents, tmp_path / "index", factory="Flat", **settings)
    path = tmp_path / "vectors.parquet"
    count = swiftlet.export_vectors(tmp_path / "index", path)
    source = open_vectors(path)
    assert (source.num_rows, source.metric) == (count, "inner_product")
    (block,) = source.blocks()
    table = pyarrow.parquet.read_table(path).to_pylist()
    embeddings = np.array([row.pop("embedding") for row in table], np.float32)
    assert block.embeddings.tobytes() == embeddings.tobytes()
    assert [{**row, "metadata": json.dumps(row["metadata"])} for row in block.rows] == table


@pytest.mark.parametrize(
    ("about", "problem"),
    [
        ('{"metric": "evil"}', "name the metric 'evil', where one of cosine, inner_product, l2"),
        ('{"metric": []}', r"name the metric \[\]"),
        ("[" * 100_000, "cannot be read: maximum recursion depth"),
    ],
)
def test_what_an_export_says_of_itself_is_checked(about, problem, tmp_path):
    rows = pyarrow.table({"passage_id": ["a#0"], "metadata": ["{}"], "embedding": [[1.0, 2.0]]})
    table = rows.replace_schema_metadata({"swiftlet": about})
    pyarrow.parquet.write_table(table, tmp_path / "vectors.parquet")
    with pytest.raises(CollectionError, match=problem):
        read(tmp_path / "vectors.parquet")


def test_metadata_of_a_row_that_are_too_deep_are_named(tmp_path):
    columns = {"passage_id": ["a#0"], "metadata": ["[" * 100_000], "embedding": [[1.0, 2.0]]}
    table = pyarrow.table(columns).replace_schema_metadata({"swiftlet": '{"metric": "l2"}'})
    pyarrow.parquet.write_table(table, tmp_path / "vectors.parquet")
    with pytest.raises(CollectionError, match="row 1: cannot be read: maximum recursion depth"):
        read(tmp_path / "vectors.parquet")


def test_a_head_of_gigabytes_takes_no_memory(tmp_path):
    head = b"\x93NUMPY\x02\x00" + (1 << 31).to_bytes(4, "little")
    (tmp_path / "vectors.npy").write_bytes(head + b" " * 100)
    with (
        zipfile.ZipFile(tmp_path / "vectors.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("v.npy", "w") as file,
    ):
        file.write(head + b" " * 100_000_000)
    tracemalloc.start()
    try:
        for suffix in (".npy", ".npz"):
            with pytest.raises(CollectionError, match=r"EOF: reading array header|ends too early"):
                read(tmp_path / f"vectors{suffix}")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_large_file_is_read_to_its_first_bad_row_only(tmp_path):
    path = write(tmp_path, ".fvecs", VECTORS[:1])
    os.truncate(path, (1 << 33) + 1)
    tracemalloc.start()
    try:
        with pytest.raises(CollectionError, match="row 2: the vector has 0 numbers where 4"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".fvecs", ".jsonl", ".parquet", ".faiss"])
def test_a_pipe_or_a_device_is_refused_before_it_is_opened(suffix, tmp_path):
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"device{suffix}").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(CollectionError, match="a pipe or a device"):
            open_vectors(tmp_path / f"{name}{suffix}")
        with pytest.raises(CollectionError, match="a pipe or a device"):
            open_vectors(VECTORS, ids=tmp_path / f"{name}{suffix}")


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        (np.array([b"\xff\xfe"] * 3), "cannot be read: 'utf-8' codec"),
        (np.full(3, 0x7FFFFFFF, "<u4").view("<U1"), "cannot be read: "),
        (np.broadcast_to(np.int8(1), 50_000_000), "there are 50,000,000 ids for 3 vectors"),
    ],
    ids=["no UTF-8", "beyond Unicode", "many"],
)
def test_ids_of_an_array_are_checked_before_they_become_texts(ids, problem, tmp_path):
    np.save(tmp_path / "ids.npy", ids)
    tracemalloc.start()
    try:
        with pytest.raises(CollectionError, match=problem):
            open_vectors(VECTORS[:3], ids=tmp_path / "ids.npy")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_an_export_whose_metadata_are_no_json_is_named_by_its_row(tmp_path):
    rows = pyarrow.table({"passage_id": ["a#0"], "metadata": ["{"], "embedding": [[1.0, 2.0]]})
    table = rows.replace_schema_metadata({"swiftlet": '{"metric": "l2"}'})
    pyarrow.parquet.write_table(table, tmp_path / "vectors.parquet")
    with pytest.raises(CollectionError, match="row 1: cannot be read: Expecting property name"):
        read(tmp_path / "vectors.parquet")


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_read_or_one_sentence(kind, data, tmp_path):
    path = write(tmp_path, kind, VECTORS[:5])
    content = bytearray(path.read_bytes())
    places = st.integers(0, len(content) - 1)
    for place in data.draw(st.lists(places, min_size=1, max_size=6)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.one_of(st.just(len(content)), places))])
    try:
        read(path)
    except CollectionError as error:
        assert f"vectors{kind}" in f"{error}"  # noqa: PT017


@pytest.mark.parametrize("shape", [(), (3,), (3, 4)])
def test_an_array_of_structures_is_refused(shape, tmp_path):
    for name in ("vector", "a"):
        np.save(tmp_path / "v.npy", np.zeros(shape, [("width", "i4"), (name, "f4")]))
        with pytest.raises(CollectionError) as refused:
            open_vectors(tmp_path / "v.npy")
        assert "v.npy" in f"{refused.value}"
        assert "\n" not in f"{refused.value}"
