"""The Python API of `import swiftlet`."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import swiftlet
from swiftlet.corpora.rows import documents_of
from swiftlet.encoders import DEFAULT_QUERY_ENCODER

ROWS = [
    {"id": "tea", "title": "Tea", "text": "Leaves are steeped in hot water.", "cups": 2},
    {"id": "ski", "title": "Skiing", "text": "One slides down snowy slopes on two boards."},
    {"id": "tax", "text": "Citizens pay a part of their income to the state."},
]
DOCUMENTS = [
    swiftlet.Document("tea", ROWS[0]["text"], "Tea", {"cups": 2}),
    swiftlet.Document("ski", ROWS[1]["text"], "Skiing"),
    swiftlet.Document("tax", ROWS[2]["text"]),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("library") / "index")
    manifest = swiftlet.build(ROWS, path)
    assert manifest.details["num_documents"] == 3
    return path


def run(code: str) -> str:
    """The output of a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_importing_swiftlet_loads_little_and_no_heavy_package():
    code = """
import sys
before = set(sys.modules)
import swiftlet
assert len(set(sys.modules) - before) < 60
heavy = {"numpy", "faiss", "onnxruntime", "tokenizers", "pydantic", "rich", "torch", "scipy"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert issubclass(swiftlet.QueryError, swiftlet.RetrievalError)
assert not heavy & set(sys.modules)
"""
    run(code)


def test_searching_loads_nothing_that_only_building_evaluating_or_serving_needs():
    loaded = run("import sys, swiftlet; swiftlet.open; print(*sys.modules)").split()
    assert not {"scipy", "httpx", "fastapi", "torch", "matplotlib"} & set(loaded)


def test_the_version_is_that_of_the_installed_package():
    assert swiftlet.__version__ == version("swiftlet-retrieval")


def test_every_public_name_is_there_and_no_other():
    assert dir(swiftlet) == sorted(swiftlet.__all__) == swiftlet.__all__
    for name in swiftlet.__all__:
        assert getattr(swiftlet, name).__doc__
    with pytest.raises(AttributeError, match="module 'swiftlet' has no attribute 'opens'"):
        swiftlet.opens  # noqa: B018


def test_the_reference_has_every_public_name():
    page = (Path(__file__).parents[2] / "docs" / "site" / "library.md").read_text("utf-8")
    assert sorted(re.findall(r"auto\w+:: (\w+)", page)) == swiftlet.__all__


@pytest.mark.check
def test_the_public_names_have_types_for_a_type_checker(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import swiftlet\n"
        "reveal_type(swiftlet.open('index').search('tea', top_k=5).hits[0].score)\n"
        "swiftlet.build([{'id': 'a'}, swiftlet.Document('b', 'text')], 'index')\n"
        "swiftlet.build(5, 'index')\n"
    )
    command = [sys.executable, "-m", "mypy", "--no-incremental", "--follow-imports=silent"]
    checked = subprocess.run(
        [*command, str(program)], check=False, capture_output=True, text=True
    ).stdout
    assert 'note: Revealed type is "float"' in checked.replace("builtins.", "")
    assert re.search(r'program.py:4: error: Argument 1 to "build"', checked)
    assert "Found 1 error in 1 file" in checked


def test_a_searcher_gives_hits_that_are_iterated_and_shown(index):
    with swiftlet.open(index) as searcher:
        found = searcher.search("a hot drink", top_k=2)
        assert repr(searcher) == "Searcher(3 documents, 3 passages, Flat)"
    assert [hit.document_id for hit in found] == [hit.document_id for hit in found.hits]
    assert (len(found), found[0].document_id) == (2, "tea")
    first, second, third = repr(found).splitlines()
    assert re.fullmatch(r"2 hits in \d+\.\d\d ms", first)
    assert re.fullmatch(r"  1  0\.\d{4}  tea  Tea: Leaves are steeped in hot water\.", second)
    assert third.startswith("  2  ")


def test_an_index_and_a_searcher_are_evaluated_by_queries_and_qrels_in_memory(index):
    queries = {"q1": "hot drink", "q2": "snow sport"}
    qrels = {"q1": {"tea": 1}, "q2": {"ski": 1, "tax": 0}}
    report = swiftlet.evaluate(index, queries, qrels, metrics=["nDCG@10", "MRR@10"])
    assert (report.num_queries, report.means) == (2, {"nDCG@10": 1, "MRR@10": 1})
    each = [swiftlet.Query(query_id, text) for query_id, text in queries.items()]
    with swiftlet.open(index) as searcher:
        assert swiftlet.evaluate(searcher, each, qrels, metrics=["MRR@10"]).means == {"MRR@10": 1}
        with pytest.raises(swiftlet.InvalidArgumentError, match="has models of its own"):
            swiftlet.evaluate(searcher, queries, qrels, precision="int8")
    report = swiftlet.evaluate(
        index, queries, qrels, metrics=["recall@1 tokens", "recall@999tokens"], length_bins=[1, 999]
    )
    assert report.means == {"recall@1 tokens": 1, "recall@999 tokens": 1}
    assert [(each.most_tokens, each.num_queries) for each in report.bins] == [(999, 2)]
    with pytest.raises(
        swiftlet.InvalidArgumentError,
        match="recall@999 tokens needs more documents than top_k=1: the documents of the query",
    ):
        swiftlet.evaluate(index, queries, qrels, metrics=["recall@999 tokens"], top_k=1)
    with pytest.raises(swiftlet.InvalidArgumentError, match=r"length_bins are \[9, 3\], but must"):
        swiftlet.evaluate(index, queries, qrels, length_bins=[9, 3])
    for needs in ({"length_bins": [9]}, {"metrics": ["recall@9 tokens"]}):
        with pytest.raises(
            swiftlet.InvalidArgumentError, match="needs the lengths of documents in"
        ):
            swiftlet.evaluate("http://localhost:1", queries, qrels, **needs)
    partly = {"q1": {"tea": 1}, "q2": {"coffee": 1}}
    report = swiftlet.evaluate(index, queries, partly, allow_unknown=True, length_bins=[999])
    assert [each.num_queries for each in report.bins] == [1]
    with pytest.raises(swiftlet.InvalidArgumentError, match="test is 'f', but one of t, wilcoxon"):
        swiftlet.evaluate(index, queries, qrels, test="f")
    with pytest.raises(swiftlet.CollectionError, match=r"unknown document ids \('coffee'\)"):
        swiftlet.evaluate(index, queries, {"q1": {"coffee": 1}})


@pytest.mark.parametrize(
    ("queries", "qrels", "problem"),
    [
        ({"q": " "}, {"q": {"tea": 1}}, "the queries: query 1: the query 'q' has no text"),
        ({7.5: "tea"}, {"q": {"tea": 1}}, "the queries: query 1: the query id 7.5 is not a string"),
        (["tea"], {"q": {"tea": 1}}, "the queries: query 1: 'tea' is no Query with a text"),
        (
            [swiftlet.Query("q", "tea"), swiftlet.Query("q", "ski")],
            {"q": {"tea": 1}},
            "the queries: query 2: the query id 'q' came before",
        ),
        ({"q": "tea"}, {"q": {"tea": 1.5}}, "the qrels: the grade 1.5 is not an integer"),
        ({"q": "tea"}, {"q": 1}, "the qrels: the grades of 'q' are not document_id -> grade"),
        ({"q": "tea"}, {"q": {".": 1}}, "the qrels: the document id '.' is a step in a path"),
        ({"q": "tea"}, {}, "the qrels: there is no judgement"),
    ],
)
def test_bad_queries_and_qrels_are_refused_in_one_sentence(index, queries, qrels, problem):
    with pytest.raises(swiftlet.CollectionError) as caught:
        swiftlet.evaluate(index, queries, qrels)
    assert str(caught.value).startswith(problem)


def arrow_table() -> object:
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.Table.from_pylist(
        [{"id": row["id"], "title": row.get("title"), **row} for row in ROWS]
    )


def generated() -> Iterator[dict[str, object]]:
    yield from ROWS


@pytest.mark.parametrize(
    "corpus",
    [lambda: ROWS, lambda: DOCUMENTS, generated, lambda: pandas.DataFrame(ROWS), arrow_table],
    ids=["dicts", "documents", "iterator", "pandas", "arrow"],
)
def test_a_corpus_is_any_iterable_of_rows(corpus):
    assert list(documents_of(corpus())) == DOCUMENTS


def test_a_data_frame_of_many_rows_gives_them_all():
    frame = pandas.DataFrame(
        {"id": [f"d{n}" for n in range(2500)], "text": "text", "n": range(2500)}
    )
    documents = list(documents_of(frame))
    assert [document.metadata["n"] for document in documents] == list(range(2500))
    assert type(documents[0].metadata["n"]) is int


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_corpus_may_be_a_path(tmp_path, as_path):
    (tmp_path / "a.txt").write_text("Bees make honey.")
    assert [document.document_id for document in documents_of(as_path(tmp_path))] == ["a.txt"]


DAY = datetime(2024, 5, 17, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["dicts", "pandas", "arrow"])
def test_dates_are_stored_as_iso_8601(kind, tmp_path):
    rows = [{"id": "a", "text": "text", "at": DAY, "on": DAY.date()}, {"id": "b", "text": "text"}]
    corpus: Any = rows
    if kind == "pandas":
        corpus = pandas.DataFrame(rows)
        assert corpus["at"].dtype.kind == "M"
    if kind == "arrow":
        corpus = pytest.importorskip("pyarrow").Table.from_pylist(rows)
    swiftlet.build(corpus, tmp_path / "index")
    with swiftlet.open(tmp_path / "index") as searcher:
        stored = searcher.document("a").metadata
        assert stored == {"at": "2024-05-17T12:30:00+00:00", "on": "2024-05-17"}
        assert searcher.document("b").metadata == {}


GOOD = {"id": "good", "text": "text"}
NO_JSON = "the metadata cannot be stored as JSON: "


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"id": "a", "text": b"text"}, '"text" is of the type bytes, not a string'),
        ({"id": "a", "text": "text", "metadata": [1]}, '"metadata" is an array, not an object'),
        ({"id": "a", "text": "text", "when": {1, 2}}, NO_JSON + "'when' (a value of the type set)"),
        ({"id": "a", "text": "text", "n": float("inf")}, NO_JSON + "'n' (the number Infinity"),
        ({"id": "a", "text": "text", "n": [{(): 1}]}, NO_JSON + "'n' (keys must be str"),
        ({"id": "a", "text": "\ud800"}, "the document 'a' holds half of a surrogate pair"),
        ({"id": "good", "text": "again"}, "the document id 'good' came before"),
        ("a text", "'a text' is of the type str, not a dict or Document"),
        (swiftlet.Document("", "text"), "the document id is empty"),
        (swiftlet.Document("a", "text", sections=((0, 9),)), "the sections ((0, 9),) are not in"),
        (
            swiftlet.Document("a", "text", sections=((0, 3), (2, 4))),
            "the sections ((0, 3), (2, 4))",
        ),
    ],
)
def test_a_bad_row_is_refused_with_its_number(row, problem):
    with pytest.raises(swiftlet.CollectionError) as caught:
        list(documents_of([GOOD, row]))
    assert str(caught.value).startswith(f"the corpus: row 2: {problem}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("corpus", [5, None, {"id": "a", "text": "text"}, b"text"])
def test_a_corpus_of_another_type_is_refused(tmp_path, corpus):
    with pytest.raises(
        swiftlet.InvalidArgumentError,
        match=f"^a corpus cannot be of the type {type(corpus).__name__}: a path, an iterable",
    ):
        swiftlet.build(corpus, tmp_path / "index")


def built(**arguments: Any) -> Callable[[str, Path], object]:
    return lambda _, path: swiftlet.build(**{"corpus": ROWS, "out": path / "index", **arguments})


def opened(**arguments: Any) -> Callable[[str, Path], object]:
    return lambda index, _: swiftlet.open(**{"index": index, **arguments})


def searched(query: Any = "tea", **arguments: Any) -> Callable[[str, Path], object]:
    return lambda index, _: swiftlet.open(index).search(query, **arguments)


def loaded(texts: Any, **arguments: Any) -> Callable[[str, Path], object]:
    return lambda _, __: swiftlet.load_encoder(**arguments).encode(texts)


def evaluated(**arguments: Any) -> Callable[[str, Path], object]:
    good = {"queries": {"q": "tea"}, "qrels": {"q": {"tea": 1}}, "metrics": ["MRR@1"]}
    return lambda index, _: swiftlet.evaluate(**{"target": index, **good, **arguments})


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (searched(top_k=1.5), "top_k is 1.5, but a whole number of at least 1 is expected"),
        (searched(top_k=True), "top_k is True, but a whole number of at least 1 is expected"),
        (searched(top_k="3"), "top_k is '3', but a whole number of at least 1 is expected"),
        (searched(top_k=0), "top_k is 0, but at least 1 is expected"),
        (searched(None), "the query is None, but a string is expected"),
        (opened(index=5), "index is 5, but a path is expected"),
        (opened(index=""), "index is '', but a path is expected"),
        (opened(encoder=b"a"), "encoder is b'a', but a path is expected"),
        (opened(readers=0), "readers is 0, but at least 1 is expected"),
        (loaded(["a"], directory=None), "directory is None, but a path is expected"),
        (loaded(["a"], threads=1.5), "threads is 1.5, but a whole number of at least 1 is exp"),
        (loaded("tea"), "a single text is given where a list is expected: pass [text]"),
        (loaded(5), "texts is of the type int, but a list of strings is expected"),
        (loaded(["a", None]), "text 1 is None, but a string is expected"),
        (built(out=5), "out is 5, but a path is expected"),
        (built(corpus=""), "corpus is '', but a path is expected"),
        (built(encoder=5), "encoder is 5, but a path is expected"),
        (built(passage_tokens="9"), "passage_tokens is '9', but a whole number of at least 1 is"),
        (built(overlap_tokens=0.5), "overlap_tokens is 0.5, but a whole number of at least 0 is"),
        (built(threads=-1), "threads is -1, but at least 1 is expected"),
        (built(factory=5), "factory is 5, but a string is expected"),
        (evaluated(target=5), "target is 5, but a path, a Searcher or the URL of a service is"),
        (evaluated(queries=5), "queries cannot be of the type int: a path, query_id -> text"),
        (evaluated(qrels=["q"]), "qrels cannot be of the type list: a path or query_id ->"),
        (evaluated(metrics="P@1"), "metrics is 'P@1', but a list such as ['nDCG@10'] is exp"),
        (evaluated(metrics=[5]), "5 is not a metric: "),
        (evaluated(top_k=10.0), "top_k is 10.0, but a whole number of at least 1 is expected"),
        (evaluated(run_out=5), "run_out is 5, but a path is expected"),
        (evaluated(against=5), "against is 5, but a path is expected"),
    ],
)
def test_an_argument_of_another_type_or_out_of_range_is_refused_with_its_name(
    index, tmp_path, call, sentence
):
    with pytest.raises(swiftlet.InvalidArgumentError) as caught:
        call(index, tmp_path)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_integers_of_numpy_are_integers(index, tmp_path):
    numbers = {"passage_tokens": np.int64(64), "overlap_tokens": np.int32(8), "threads": np.int8(1)}
    swiftlet.build(ROWS, tmp_path / "index", **numbers)
    with swiftlet.open(tmp_path / "index", readers=np.int64(2)) as searcher:
        assert len(searcher.search("tea", np.int64(2))) == 2
        qrels = {"q": {"tea": np.int64(1)}}
        assert swiftlet.evaluate(searcher, {"q": "tea"}, qrels, top_k=np.int64(100)).num_queries


def test_a_document_id_that_is_no_string_is_unknown(index):
    with swiftlet.open(index) as searcher:
        for document_id in (5, ["tea"]):
            with pytest.raises(swiftlet.UnknownDocumentError):
                searcher.document(document_id)  # type: ignore[arg-type]


def test_progress_is_printed_line_by_line(tmp_path, capsys):
    swiftlet.build(ROWS, tmp_path / "index", progress=swiftlet.ProgressLine())
    lines = [line.split("\r")[-1] for line in capsys.readouterr().err.split("\n")]
    assert lines == [
        "Reading documents",
        "Indexing words: 3 of 3",
        "Encoding passages: 3 of 3",
        "Training the index",
        "Adding embeddings: 3 of 3",
        "Measuring recall",
        "",
    ]


def test_manifests_and_encoders_are_shown_on_one_short_line(tmp_path):
    manifest = swiftlet.build(ROWS, tmp_path / "index")
    assert repr(manifest).startswith("Manifest(kind='index', dim=384, encoder='all-MiniLM-L6-v2'")
    assert "num_documents=3, num_passages=3" in repr(manifest)
    assert "blake3" not in repr(manifest)
    encoder = swiftlet.load_encoder(str(DEFAULT_QUERY_ENCODER))
    assert encoder.embedding_space == swiftlet.load_encoder().embedding_space
    assert repr(encoder) == "OnnxEncoder('all-MiniLM-L6-v2-query-2-layers', int8, 384 dimensions)"


def test_facets_are_fields_that_some_document_has(tmp_path):
    manifest = swiftlet.build(ROWS, tmp_path / "index", facets=["cups"])
    assert manifest.details["facets"] == ["cups"]
    with swiftlet.open(tmp_path / "index") as searcher:
        assert searcher.facets() == {"cups": [(2, 1)]}
        with swiftlet.write(tmp_path / "index") as writer:
            writer.put([{"id": "new", "text": "Five cups.", "metadata": {"cups": 5}}])
        searcher.refresh()
        assert json.dumps(searcher.facets()) == '{"cups": [[2, 1], [5, 1]]}'
    for facets in ("cups", [2]):
        with pytest.raises(swiftlet.InvalidArgumentError, match="a list of fields is expected"):
            swiftlet.build(ROWS, tmp_path / "other", facets=facets)  # type: ignore[arg-type]
    with pytest.raises(swiftlet.InvalidArgumentError, match=r"'cup', but .* fields \['cups'\]"):
        swiftlet.build(ROWS, tmp_path / "other", facets=["cup"])
    with pytest.raises(swiftlet.InvalidArgumentError, match="'cup', but no document has metadata"):
        swiftlet.build(ROWS[1:], tmp_path / "other", facets=["cup"])
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.check
def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch):
    docs = Path(__file__).parents[2] / "docs"
    pages = [(docs / name).read_text() for name in ("library.md", "shards.md")]
    examples = re.findall(r"```python\n(.*?)```", "".join(pages), re.DOTALL)
    assert len(examples) >= 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for example in examples:
        exec(example, names)
    assert names["result"][0].document_id == "bees"
    assert names["report"].means["MRR@10"] == 1
