"""Qrels and runs, read and written."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swiftlet.corpora.identifiers import check_trec_id
from swiftlet.corpora.lines import LineError
from swiftlet.corpora.trec import check_qrels, qrels_path, read_qrels, read_run, write_run
from swiftlet.errors import CollectionError, InvalidArgumentError, StorageError

HEADER = "query-id\tcorpus-id\tscore\n"
EXPECTED = {"q1": {"d1": 1, "d 2": 0}, "q2": {"d1": 2}}


@pytest.mark.parametrize(
    ("content", "qrels"),
    [
        (HEADER + "q1\td1\t1\nq1\td 2\t0\r\n\nq2\td1\t2", EXPECTED),
        ("\ufeffQuery-ID\tcorpus-id\tscore\nq\td\t1\n", {"q": {"d": 1}}),
        ("q1 0 d1 1\nq1  0\td2   -2 \n", {"q1": {"d1": 1, "d2": -2}}),
        ("1\t0\t7\t1\n1\t0\t7\t1\n", {"1": {"7": 1}}),
    ],
)
@pytest.mark.parametrize("name", ["qrels.tsv", "qrels.txt.gz"])
def test_qrels_of_beir_trec_and_ms_marco_are_read(tmp_path, name, content, qrels):
    data = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert read_qrels(tmp_path / name) == qrels


@pytest.mark.parametrize(
    ("read", "content", "problem"),
    [
        (read_qrels, "", "the file is empty"),
        (read_qrels, HEADER, "there is no judgement"),
        (read_qrels, HEADER + "q\td\n", "line 2: 2 columns where 3 are expected"),
        (read_qrels, HEADER + "q\t\t1\n", "line 2: the document id is empty"),
        (read_qrels, "q\td\t1\n", "line 1: 3 columns where 4 (or 3 under the header query-id,"),
        (read_qrels, "q 0 d 1 extra\n", "line 1: 5 columns where 4"),
        (read_qrels, "q 0 d 1.5\n", "line 1: the grade '1.5' is not an integer"),
        (read_qrels, "q 0 d 1_0\n", "line 1: the grade '1_0' is not an integer"),
        (read_qrels, f"q 0 d {'9' * 9999}\n", "is not an integer of up to 9 digits"),
        (
            read_qrels,
            "q 0 d 1\nq 0 d 0\n",
            "'d' has the grade 0 for the query 'q', but had 1 before",
        ),
        (read_qrels, b"q 0 d 1\nq 0 \xff 1\n", "line 2: not valid UTF-8: byte 5 is 0xff"),
        (read_run, "", "the file is empty"),
        (read_run, "q Q0 d 1 0.5\n", "line 1: 5 columns where 6 are expected"),
        (read_run, "q Q0 d 1 nan tag\n", "line 1: the score 'nan' is not a finite number"),
        (read_run, "q Q0 d 1 1e999 tag\n", "line 1: the score '1e999' is not a finite number"),
        (read_run, "q Q0 d 1 1_0 tag\n", "line 1: the score '1_0' is not a finite number"),
        (read_run, "q Q0 d 1 2 t\nq Q0 d 2 1 t", "line 2: the document 'd' has the score 1.0"),
    ],
)
def test_a_bad_line_of_qrels_or_runs_is_named(tmp_path, read, content, problem):
    path = tmp_path / "file.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CollectionError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert problem in str(caught.value)
    assert len(caught.value.problem) < 250


def test_a_missing_split_is_refused_with_those_that_exist(tmp_path):
    with pytest.raises(CollectionError, match="no qrels of the split 'test'; there are none"):
        qrels_path(tmp_path, "test")
    (tmp_path / "qrels").mkdir()
    for name in ("train.tsv", "dev.tsv.gz", "notes.txt"):
        (tmp_path / "qrels" / name).touch()
    assert qrels_path(tmp_path, "dev") == tmp_path / "qrels/dev.tsv.gz"
    with pytest.raises(CollectionError, match=r"there are dev, train$"):
        qrels_path(tmp_path, "../qrels/train")
    with pytest.raises(
        CollectionError, match="a folder where a qrels file is expected; its splits"
    ):
        read_qrels(tmp_path)


def test_qrels_of_unknown_queries_or_documents_are_refused():
    qrels = {"q1": {"d1": 1, "d2": 0}, "q2": {"d2": 1, "d3": 1, "d4": 1, "d5": 1}}
    documents = {"d1", "d2", "d3", "d4", "d5"}
    check_qrels(Path("qrels.tsv"), qrels, {"q1", "q2", "q3"}, documents.__contains__)
    with pytest.raises(CollectionError) as caught:
        check_qrels(Path("qrels.tsv"), qrels, ["q1"], {"d1"}.__contains__)
    assert str(caught.value) == (
        "qrels.tsv: the qrels name 1 unknown query ids ('q2') and "
        "4 unknown document ids ('d2', 'd3', 'd4', …)"
    )


def test_a_run_is_written_best_first_with_ties_by_document_id(tmp_path):
    path = tmp_path / "run.trec"
    path.write_text("earlier")
    of_numpy: Any = np.float32(0.1)
    write_run(path, {"q2": {"b": 0.5, "c": 2, "a": 0.5}, "q1": {"x": of_numpy}}, "tag")
    assert path.read_text() == (
        "q2 Q0 c 1 2.0 tag\nq2 Q0 a 2 0.5 tag\nq2 Q0 b 3 0.5 tag\n"
        "q1 Q0 x 1 0.10000000149011612 tag\n"
    )
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("run", "tag", "error", "problem"),
    [
        ({"q": {"a b": 1.0}}, "t", CollectionError, "cannot hold the document id 'a b'"),
        ({"q\u00a01": {"a": 1.0}}, "t", CollectionError, "cannot hold the query id"),
        ({"q": {"": 1.0}}, "t", CollectionError, "the document id is empty"),
        ({"q": {"\ud800": 1.0}}, "t", CollectionError, "forbidden character"),
        ({"q": {"a": float("nan")}}, "t", CollectionError, "the score of 'a' is nan"),
        ({"q": {"a": 1.0}}, "two words", InvalidArgumentError, "must be one word"),
        ({"q": {"a": 1.0}}, "", InvalidArgumentError, "must be one word"),
    ],
)
def test_invalid_entries_of_a_run_are_refused_and_nothing_is_written(
    tmp_path, run, tag, error, problem
):
    path = tmp_path / "run.trec"
    path.write_text("earlier")
    with pytest.raises(error, match=problem):
        write_run(path, run, tag)
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_is_not_written_where_it_cannot_be(tmp_path):
    with pytest.raises(InvalidArgumentError, match="is not a file"):
        write_run(tmp_path, {"q": {"a": 1.0}}, "t")
    with pytest.raises(StorageError, match="No such file or directory"):
        write_run(tmp_path / "missing" / "run.trec", {"q": {"a": 1.0}}, "t")


def may_be_an_id(value: str) -> bool:
    try:
        check_trec_id(value, "id")
    except LineError:
        return False
    return True


TEXTS = st.text(st.sampled_from(".\ufeff \u00a0#é") | st.characters(), max_size=5)
IDS = TEXTS.filter(may_be_an_id)
SCORES = st.floats(allow_nan=False, allow_infinity=False)


@given(TEXTS)
@example(".")
@example("..")
@example("a\u00a0b")
@example("\u2028")
def test_a_run_is_written_only_with_ids_that_are_read_and_read_only_with_these(
    tmp_path_factory, value
):
    path = tmp_path_factory.mktemp("run") / "run.trec"
    path.write_bytes(f"q Q0 {value} 1 0.5 tag\n".encode(errors="surrogatepass"))
    try:
        read = read_run(path)
    except CollectionError:
        read = None
    if may_be_an_id(value):
        assert read == {"q": {value: 0.5}}
        write_run(path, read, "tag")
    else:
        # White space around an id is none of the id.
        assert read is None or value not in read["q"]
        with pytest.raises(CollectionError):
            write_run(path, {"q": {value: 0.5}}, "tag")


@settings(max_examples=50)
@given(
    st.dictionaries(
        IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=9), min_size=1, max_size=5
    ),
    st.sampled_from(["run.trec", "run.trec.gz"]),
)
def test_a_run_that_was_written_is_read_the_same(tmp_path_factory, run, name):
    path = tmp_path_factory.mktemp("run") / name
    write_run(path, run, "tag")
    found = read_run(path)
    assert found == run
    for query_id, scores in found.items():
        ranking = list(scores.items())
        assert ranking == sorted(run[query_id].items(), key=lambda item: (-item[1], item[0]))


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "split", "queries", "judgements"),
    [
        ("scifact", "test", 300, 339),
        ("scifact", "test_disjoint", 104, 119),
        ("boolq", "test_disjoint", 2686, 2686),
        ("qmsum", "val", 237, 237),
    ],
)
def test_the_real_qrels_are_read_whole(shared_data, name, split, queries, judgements):
    qrels = read_qrels(qrels_path(shared_data / name, split))
    assert (len(qrels), sum(map(len, qrels.values()))) == (queries, judgements)
