"""The hybrid page, made by a run on tiny collections."""

import json
import re
from argparse import Namespace
from itertools import islice
from pathlib import Path

import pytest

from experiments import hybrid, indexes
from measuring.results import write
from swiftlet.demo import read_standard_library
from tests.conftest import TOPICS

PACKAGES = """Package: glue
Description-en: Simple command line tool for sprites
 Glue joins the pictures of a web page.

Package: glue-dev
Description-en: Simple command line tool for sprites, headers
 Glue joins the pictures of a web page.
 .
 These are its headers.

Package: short
Description-en: A tool
 Its description is no query.

"""


@pytest.fixture
def data(tmp_path) -> Path:
    """Two collections, in which each text's end asks for the text."""
    folder = tmp_path / "data"
    for name, topics in (("one", [*TOPICS][:6]), ("two", [*TOPICS][6:])):
        (folder / name / "qrels").mkdir(parents=True)
        corpus = [json.dumps({"_id": topic, "text": TOPICS[topic]}) for topic in topics]
        queries = [json.dumps({"_id": topic, "text": TOPICS[topic][-30:]}) for topic in topics]
        (folder / name / "corpus.jsonl").write_text("\n".join(corpus))
        (folder / name / "queries.jsonl").write_text("\n".join(queries))
        rows = ["query-id\tcorpus-id\tscore", *(f"{topic}\t{topic}\t1" for topic in topics)]
        (folder / name / "qrels" / "test.tsv").write_text("\n".join(rows))
    return folder


@pytest.mark.check
def test_a_page_is_made_from_collections_and_names(data, tmp_path, monkeypatch):
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "stable_main_i18n_Translation-en").write_text(PACKAGES)
    machine = {"manual": "/none", "package_lists": f"{lists}", "show": "cat", "documents": 9}
    monkeypatch.setattr(indexes, "SPLITS", {"one": "test", "two": "test"})
    monkeypatch.setattr(indexes, "LEARNT", ["two"])
    monkeypatch.setitem(indexes.SETTINGS, "machine", machine)
    monkeypatch.setitem(hybrid.SETTINGS, "names", 5)
    few = {f"{each}": {"weight": each} for each in (0.5, hybrid.DEFAULT_WEIGHT)}
    monkeypatch.setattr(hybrid, "WEIGHTS", [0.5, hybrid.DEFAULT_WEIGHT])
    monkeypatch.setattr(hybrid, "SYSTEMS", hybrid.SETTINGS["systems"] | few)
    monkeypatch.setattr(hybrid, "read_standard_library", lambda: islice(read_standard_library(), 3))
    options = Namespace(data=data, work=tmp_path / "hybrid")
    names = ["one", "two", indexes.MANUAL_PAGES, indexes.PACKAGES, hybrid.NAMES]
    found = {(name,): hybrid.figures_of(options, name) for name in names}
    figures = hybrid.collected(options, found)
    assert [*figures["rows"]] == ["one", "two", "package descriptions"]
    assert figures["rows"]["one"]["ndcg"]["lexical"] == 1.0
    assert figures["rows"]["package descriptions"]["documents"] == 1
    assert figures["names"]["success"]["lexical"] == 1.0
    figures |= {"template": "experiments/hybrid.md.j2", "machine": "A machine."}
    page = write(tmp_path / "hybrid.json", figures).read_text("utf-8")
    assert "This machine has no manual pages." in page
    assert "| all exact names, at least 95% found first | 100.0% | reached |" in page
    figures["names"]["success"]["hybrid"] = 0.9
    page = write(tmp_path / "hybrid.json", figures).read_text("utf-8")
    assert "| all exact names, at least 95% found first | 90.0% | **missed** |" in page


def test_names_are_in_the_text_of_one_module_alone(monkeypatch):
    monkeypatch.setattr(hybrid, "read_standard_library", lambda: islice(read_standard_library(), 9))
    found = hybrid.exact_names()
    assert len(found.queries) > 100
    for query in found.queries:
        word = re.compile(rf"\b{re.escape(query.text)}\b")
        texts = {d.document_id: 1 for d in found.documents if word.search(d.text)}
        assert texts == found.qrels[query.query_id]
