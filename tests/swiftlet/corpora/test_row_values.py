"""The values that tables have and JSON does not: each is stored, or refused in a sentence."""

import math
import sys
import uuid
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftlet.corpora.collections import read_documents
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.rows import documents_of, qrels_of, queries_of
from swiftlet.errors import CollectionError
from swiftlet.types import Query

UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
NOON = 1_600_000_000_123_456_789


def column(values: list[Any], kind: Any = None) -> pa.Table:
    ids = [f"{number}" for number in range(len(values))]
    return pa.table({"id": ids, "text": ["t"] * len(values), "v": pa.array(values, kind)})


def bad_utf_8() -> pa.Array:
    """Texts, of which the first is not valid."""
    texts = pa.array([b"\xff", b"a", b"b"])
    return pa.Array.from_buffers(pa.string(), 3, texts.buffers())


def read(table: pa.Table, folder: Path) -> tuple[list[Any], SkippedLines]:
    """What is stored of the column v, from a file and from memory alike."""
    skipped, again = SkippedLines(), SkippedLines()
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    found = [each.metadata.get("v") for each in documents_of(folder / "t.parquet", skipped=skipped)]
    in_memory = [each.metadata.get("v") for each in documents_of(table, skipped=again)]
    assert (in_memory, again.count) == (found, skipped.count)
    return found, skipped


# Columns of Arrow's format that Parquet does not have.
@pytest.mark.parametrize(
    ("column", "stored"),
    [
        (pa.array([[1], [2, 3]], pa.list_view(pa.int32())), [[1], [2, 3]]),
        (pa.RunEndEncodedArray.from_arrays([1, 2], ["x", None]), ["x", None]),
        (pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array("pq")]),
         [1, "q"]),
        (pa.array([(1, 2, 3), None], pa.month_day_nano_interval()), [[1, 2, 3], None]),
        (pa.array(["x", "y"], pa.string_view()), ["x", "y"]),
        (pa.nulls(2), [None, None]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_columns_of_arrow_are_stored(column, stored, new, tmp_path):
    table = pa.table({"id": ["1", "2"], "text": ["a", "b"], "c": column})
    with new(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    found = read_documents(tmp_path / "a.arrow")
    assert [each.metadata.get("c") for each in found] == stored


@pytest.mark.parametrize("pandas_is_missing", [False, True])
@pytest.mark.parametrize(
    ("values", "kind", "stored"),
    [
        ([1.5, math.nan, None], pa.float64(), [1.5, None, None]),
        ([[1.0, math.nan]], pa.list_(pa.float64()), [[1.0, None]]),
        ([NOON, NOON // 1000 * 1000, 0, -1], pa.timestamp("ns"), [
            "2020-09-13T12:26:40.123456789", "2020-09-13T12:26:40.123456", "1970-01-01T00:00:00",
            "1969-12-31T23:59:59.999999999",
        ]),
        ([NOON], pa.timestamp("ns", "Asia/Tokyo"), ["2020-09-13T21:26:40.123456789+09:00"]),
        ([1, 3_600_000_000_000], pa.time64("ns"), ["00:00:00.000000001", "01:00:00"]),
        ([[NOON, None]], pa.list_(pa.timestamp("ns")), [["2020-09-13T12:26:40.123456789", None]]),
        ([{"a": NOON}], pa.struct([("a", pa.timestamp("ns"))]),
         [{"a": "2020-09-13T12:26:40.123456789"}]),
        ([[("k", NOON)]], pa.map_(pa.string(), pa.timestamp("ns")),
         [[["k", "2020-09-13T12:26:40.123456789"]]]),
        ([[("k", 1)]], pa.map_(pa.string(), pa.int64()), [[["k", 1]]]),
        ([date(2026, 11, 25)], pa.date32(), ["2026-11-25"]),
        ([time(1, 2, 3)], pa.time32("s"), ["01:02:03"]),
        ([Decimal("12.50"), Decimal("3.00"), Decimal("0.10")], pa.decimal128(9, 2), [12.5, 3, 0.1]),
        ([Decimal(2**53) + Decimal("1.25")], pa.decimal128(30, 2), ["9007199254740993.25"]),
        ([2**63 - 1, -(2**63)], pa.int64(), [2**63 - 1, -(2**63)]),
        ([2**64 - 1], pa.uint64(), [2**64 - 1]),
        ([UUID.bytes], pa.uuid(), [f"{UUID}"]),
        (["a", "b", "a"], pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
        ([1.5], pa.float16(), [1.5]),
        ([{"a": [{"b": 1}]}], None, [{"a": [{"b": 1}]}]),
        ([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int8()), [[["k", 1], ["k", 2]]]),
        ([5e-324, -0.0], pa.float64(), [5e-324, 0]),
        ([Decimal("12345678901234567890.50")], pa.decimal256(40, 2), ["12345678901234567890.50"]),
        ([-1], pa.timestamp("us"), ["1969-12-31T23:59:59.999999"]),
        ([0], pa.timestamp("s", "+05:45"), ["1970-01-01T05:45:00+05:45"]),
    ],
)  # fmt: skip
def test_the_values_of_a_column_are_stored(
    values, kind, stored, tmp_path, pandas_is_missing,
    monkeypatch
):  # fmt: skip
    if pandas_is_missing:
        monkeypatch.setitem(sys.modules, "pandas", None)
    found, skipped = read(column(values, kind), tmp_path)
    assert found == stored
    assert skipped.count == 0


@pytest.mark.parametrize(
    ("table", "stored", "problem"),
    [
        (column([10_000_000, 1], pa.date32()), ["1970-01-02"], "'v' cannot be read: date value"),
        (column([2**50, 0], pa.timestamp("s")), ["1970-01-01T00:00:00"], "'v' cannot be read: "),
        (column([[2**62], [0]], pa.list_(pa.timestamp("us"))), [["1970-01-01T00:00:00"]], "'v' "),
        (column([b"\xff", None]), [None], "the metadata cannot be stored as JSON: 'v'"),
        (column([{"x": 1, "y": 2}, None]).cast(pa.schema([
            ("id", pa.string()), ("text", pa.string()),
            ("v", pa.struct([("x", pa.int64()), ("x", pa.int64())])),
        ])), [None], "'v' cannot be read: two of its fields have one name"),
        (column([math.inf, 1.0]), [1.0], "the metadata cannot be stored as JSON: 'v'"),
        (column([timedelta(1), None]), [None], "the metadata cannot be stored as JSON: 'v'"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_stored_is_one_bad_row(table, stored, problem, tmp_path):
    found, skipped = read(table, tmp_path)
    assert found == stored
    assert skipped.count == 1
    assert f"row 1: {problem}" in skipped.messages[0]
    assert "\n" not in skipped.messages[0]
    with pytest.raises(CollectionError, match="the option --skip-bad-lines"):
        list(documents_of(tmp_path / "t.parquet"))


def seen_as(values: list[int], kind: Any) -> pa.Array:
    """Values of memory that is not checked, as a damaged or careless file has them."""
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(values, width).view(kind)


ODD = [
    seen_as([86_400_000_000, *[5] * 1_499], pa.time64("us")),
    seen_as([86_400_000_000_000, *[5] * 1_499], pa.time64("ns")),
    seen_as([86_400, *[5] * 1_499], pa.time32("s")),
    seen_as([-1, *[5] * 1_499], pa.time32("ms")),
    seen_as([86_400_001, *[86_400_000] * 1_499], pa.date64()),
    pa.Array.from_buffers(
        pa.decimal128(3, 2), 1_500,
        pa.array([Decimal("123.45"), *[Decimal("1.25")] * 1_499], pa.decimal128(9, 2)).buffers(),
    ),
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: f"{odd.type}")
@pytest.mark.parametrize("within", [False, True])
def test_an_odd_value_is_one_bad_row(odd, within, tmp_path):
    values = pa.ListArray.from_arrays(list(range(1_501)), odd) if within else odd
    skipped, ids = SkippedLines(), [f"{number}" for number in range(1_500)]
    table = pa.table({"id": ids, "text": ["t"] * 1_500, "v": values})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    found = [each.document_id for each in documents_of(tmp_path / "a.arrow", skipped=skipped)]
    assert (found, skipped.count) == (ids[1:], 1)
    assert "row 1: 'v' cannot be read: " in skipped.messages[0]


@pytest.mark.parametrize(
    ("ids", "kind", "texts"),
    [
        ([UUID.bytes], pa.uuid(), [f"{UUID}"]),
        ([Decimal(7), Decimal(10**30)], pa.decimal128(38, 0), ["7", f"{10**30}"]),
    ],
)
def test_uuids_and_whole_decimals_are_ids(ids, kind, texts, tmp_path):
    table = pa.table({"id": pa.array(ids, kind), "text": ["t"] * len(ids)})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    assert [each.document_id for each in read_documents(tmp_path / "t.parquet")] == texts


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (np.datetime64(NOON, "ns"), {"v": "2020-09-13T12:26:40.123456789"}),
        (np.datetime64(NOON // 1000 * 1000, "ns"), {"v": "2020-09-13T12:26:40.123456"}),
        (np.datetime64("2020-09-13"), {"v": "2020-09-13"}),
        (np.array([NOON, 0], "datetime64[ns]"),
         {"v": ["2020-09-13T12:26:40.123456789", "1970-01-01T00:00:00"]}),
        (np.datetime64("NaT", "ns"), {}), (pandas.NA, {}), (Decimal("NaN"), {}),
        (Decimal("sNaN"), {}), ([pandas.NA, Decimal("NaN"), 1], {"v": [None, None, 1]}),
    ],
)  # fmt: skip
def test_times_of_numpy_are_texts_and_missing_values_are_left_out(value, stored):
    (found,) = documents_of([{"id": "a", "text": "t", "v": value}])
    assert found.metadata == stored


def test_a_length_of_time_is_no_integer():
    with pytest.raises(CollectionError, match="a length of time"):
        list(documents_of([{"id": "a", "text": "t", "v": np.timedelta64(5, "ns")}]))


TEXTS = bad_utf_8()
PLACES = [0, 1, 2, 3]


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize(
    ("values", "stored"),
    [
        (TEXTS, ["a", "b"]),
        (pa.StructArray.from_arrays([TEXTS, TEXTS], ["x", "y"]),
         [{"x": "a", "y": "a"}, {"x": "b", "y": "b"}]),
        (pa.ListArray.from_arrays(PLACES, TEXTS), [["a"], ["b"]]),
        (pa.LargeListArray.from_arrays(PLACES, TEXTS), [["a"], ["b"]]),
        (pa.ListViewArray.from_arrays(PLACES[:-1], [1] * 3, TEXTS), [["a"], ["b"]]),
        (pa.LargeListViewArray.from_arrays([0, 2, 1], [1] * 3, TEXTS), [["b"], ["a"]]),
        (pa.FixedSizeListArray.from_arrays(TEXTS, 1), [["a"], ["b"]]),
        (pa.MapArray.from_arrays(PLACES, pa.array(["k"] * 3), TEXTS), [[["k", "a"]], [["k", "b"]]]),
        (pa.DictionaryArray.from_arrays([0, 1, 2], TEXTS), ["a", "b"]),
        (pa.StructArray.from_arrays([pa.ListArray.from_arrays(PLACES, TEXTS)], ["x"]),
         [{"x": ["a"]}, {"x": ["b"]}]),
    ],
)  # fmt: skip
def test_invalid_utf_8_is_one_bad_row_wherever_it_stands(values, stored, is_file, tmp_path):
    table = pa.table({"id": ["0", "1", "2"], "text": ["t"] * 3, "v": values})
    skipped, path = SkippedLines(), tmp_path / "t.arrow"
    if is_file:
        with pa.OSFile(f"{path}", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    found = documents_of(path if is_file else table, skipped=skipped)
    assert [each.metadata["v"] for each in found] == stored
    assert skipped.count == 1
    assert "row 1: 'v' cannot be read: 'utf-8' codec" in skipped.messages[0]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_large_value_of_many_rows_is_in_memory_once(suffix, tmp_path, peak_megabytes):
    numbers, text = np.zeros(200, np.int8), "a" * 1_000_000
    texts = pa.DictionaryArray.from_arrays(pa.array(numbers, mask=numbers == 1), [text, "b"])
    table = pa.table({"id": [f"{number}" for number in range(200)], "text": texts})
    path = tmp_path / f"table{suffix}"
    if suffix == ".parquet":
        pa.parquet.write_table(table, path, compression="zstd")
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)

    def read_all() -> None:
        found = [document.text for document in read_documents(path)]
        assert (len(found), {*found}) == (200, {text})

    assert peak_megabytes(read_all) < 100


@pytest.mark.parametrize("form", ["parquet", "table", "frame"])
def test_two_columns_of_one_name_are_refused(form, tmp_path):
    corpus: Any = pa.table([["a"], ["x"], ["y"]], names=["id", "text", "text"])
    if form == "parquet":
        pyarrow.parquet.write_table(corpus, tmp_path / "t.parquet")
        corpus = tmp_path / "t.parquet"
    elif form == "frame":
        corpus = pandas.DataFrame([["a", "x", "y"]], columns=["id", "text", "text"])
    with pytest.raises(CollectionError, match="the column 'text' is there twice: rename one"):
        list(documents_of(corpus, skipped=SkippedLines()))


def test_integer_ids_are_their_decimal_text_everywhere(tmp_path):
    rows = {"id": [7, 2**60], "text": ["a", "b"]}
    (tmp_path / "a.jsonl").write_text(
        '{"id": 7, "text": "a"}\n{"id": 1152921504606846976, "text": "b"}'
    )
    pyarrow.parquet.write_table(pa.table(rows), tmp_path / "t.parquet")
    in_numpy = [
        {"id": np.int64(id_), "text": text} for id_, text in zip(*rows.values(), strict=True)
    ]
    for corpus in (
        tmp_path / "a.jsonl", tmp_path / "t.parquet", pa.table(rows), pandas.DataFrame(rows),
        in_numpy,
    ):  # fmt: skip
        found = [each.document_id for each in documents_of(corpus)]
        assert found == ["7", "1152921504606846976"]
    assert queries_of({5: "why"}) == [Query("5", "why")]  # type: ignore[dict-item]
    assert qrels_of({5: {7: 1}}) == {"5": {"7": 1}}  # type: ignore[dict-item]
    with pytest.raises(CollectionError, match="the document id true is not a string"):
        list(documents_of([{"id": True, "text": "a"}]))
    with pytest.raises(CollectionError, match="an integer has more than 4,300 digits: write it as"):
        list(documents_of([{"id": "a", "text": "a", "n": 10**5_000}]))


def test_scalars_of_numpy_are_numbers_and_missing_values_of_pandas_are_missing():
    row = {
        "id": "a", "text": "t", "title": math.nan, "i": np.int64(5), "f": np.float32(0.5),
        "b": np.bool_(True), "n": np.float32("nan"), "t": pandas.NaT, "l": [np.int8(1)],
        "v": np.array([1, 2]), "m": pandas.Timestamp("2020-01-01"),
    }  # fmt: skip
    (found,) = documents_of([row])
    assert found.metadata == {
        "i": 5, "f": 0.5, "b": True, "l": [1], "v": [1, 2], "m": "2020-01-01T00:00:00"
    }  # fmt: skip


ARROW = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.date32(): st.integers(-(2**31), 2**31 - 1),
    pa.date64(): st.integers(-(2**36), 2**36).map(lambda day: day * 86_400_000),
    pa.timestamp("s"): st.integers(-(2**63), 2**63 - 1),
    pa.timestamp("ns", "Europe/Berlin"): st.integers(-(2**63), 2**63 - 1),
    pa.time64("ns"): st.integers(0, 86_399_999_999_999),
    pa.duration("ns"): st.integers(-(2**63), 2**63 - 1),
    pa.binary(): st.binary(max_size=5),
    pa.string(): st.text(max_size=5),
    pa.decimal128(38, 10): st.decimals(-(10**20), 10**20, places=10),
}


@given(st.data())
def test_any_column_is_read_or_its_rows_are_counted(data):
    kind = data.draw(st.sampled_from([*ARROW]))
    values = st.none() | ARROW[kind]
    wrap = data.draw(st.sampled_from(["plain", "list", "struct"]))
    if wrap == "list":
        kind, values = pa.list_(kind), st.none() | st.lists(values, max_size=3)
    if wrap == "struct":
        kind, values = pa.struct([("a", kind)]), st.none() | st.fixed_dictionaries({"a": values})
    found = data.draw(st.lists(values, min_size=1, max_size=5))
    skipped = SkippedLines()
    read_rows = list(documents_of(column(found, kind), skipped=skipped))
    assert len(read_rows) + skipped.count == len(found)


def test_a_name_of_a_column_that_is_no_text_is_in_every_bad_row(tmp_path):
    with pa.OSFile(f"{tmp_path / 't.arrow'}", "wb") as sink:
        table = column([1, 2]).rename_columns(["id", "text", "NAME"])
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    content = (tmp_path / "t.arrow").read_bytes()
    (tmp_path / "t.arrow").write_bytes(content.replace(b"NAME", b"NA\x80E"))
    with pytest.raises(CollectionError, match="row 1: the name of a column is not valid UTF-8"):
        list(documents_of(tmp_path / "t.arrow"))
