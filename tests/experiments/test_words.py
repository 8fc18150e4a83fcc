"""The words that both versions of the analysis find, as the page of results has them."""

from argparse import Namespace

import pytest

from experiments import words
from export.quality import Collection
from swiftlet.types import Document, Query

NOTHING = Namespace()


def test_words_without_accents_are_counted_for_both_versions() -> None:
    found = words.figures_of(NOTHING, "words", "english")
    assert found["words"] == len(words.SETTINGS["words"]["english"])
    assert found["found"]["query without accents"] == [4, 10]


def test_words_of_a_script_without_spaces_are_found_by_version_2_alone() -> None:
    ways = words.figures_of(NOTHING, "sentences", "chinese")["ways"]
    assert [ways[f"version {version}"]["found"] for version in words.VERSIONS] == [0, 1]


def test_both_versions_search_a_collection_and_name_its_quality(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    documents = [Document("a", "Bees make honey."), Document("b", "Ice flows down a valley.")]
    found = Collection("", "", documents, [Query("q", "honey")], {"q": {"a": 1}})
    monkeypatch.setattr(words.indexes, "collections", lambda _: {"bees": lambda: found})
    figures = words.figures_of(Namespace(data=None), "collection", "bees")
    assert (figures["passages"], figures["queries"]) == (2, 1)
    assert all(each["nDCG@10"] == each["recall@100"] == 1 for each in figures["versions"].values())


def test_the_page_has_the_figures_that_are_not_measured_again() -> None:
    of_one = {"1": {"nDCG@10": 0.4}, "2": {"nDCG@10": 0.6}}
    of_two = {"1": {"nDCG@10": 0.6}, "2": {"nDCG@10": 0.7}}
    runs = {("collection", "a"): {"versions": of_one}, ("collection", "b"): {"versions": of_two}}
    figures = words.collected(NOTHING, runs | {("manuals", "danish"): {}})
    assert figures["means"]["1"]["nDCG@10"] == pytest.approx(0.5)
    assert figures["manuals"] == {}
    assert {"commit", "stems", "ways"} <= figures["earlier"].keys()
