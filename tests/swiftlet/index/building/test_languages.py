"""A build finds the languages of its documents."""

import shutil
from pathlib import Path

import pytest

import swiftlet
from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.index.document_encoder import PLACE
from swiftlet.manifest import change_details
from swiftlet.search.request import DEFAULT_WEIGHT

GERMAN = "Die Häuser an der alten Straße wurden von den Nachbarn schön gestrichen."
ENGLISH = "The painted houses along the old street were admired by all the neighbours."


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """The user's folder of encoders, which is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}")
    folder = tmp_path / "swiftlet" / "encoders"
    folder.mkdir(parents=True)
    return folder


def test_a_build_finds_the_languages_and_says_what_the_encoder_does_not_read(
    cache, tmp_path, capsys
):
    rows = [{"id": "de", "text": GERMAN}, {"id": "en", "text": ENGLISH}]
    manifest = swiftlet.build(rows, tmp_path / "i", progress=swiftlet.ProgressLine())
    assert manifest.details["language"] == "german,english"
    assert manifest.details["languages"] == {"de": 0.5, "en": 0.5}
    said = capsys.readouterr().err
    assert "1 of 2 documents is German, 1 is English\n" in said
    assert "50% of the documents are in other languages" in said
    assert "get multilingual, which needs the extra export, then index them again" in said
    with swiftlet.open(tmp_path / "i") as searcher:
        found = searcher.search("Haus", mode="lexical").hits
    assert [hit.document_id for hit in found] == ["de"]


def test_a_corpus_in_english_is_built_as_before_and_says_nothing_of_languages(
    cache, tmp_path, capsys
):
    rows = [{"id": f"{number}", "text": ENGLISH} for number in range(3)]
    manifest = swiftlet.build(rows, tmp_path / "i", progress=swiftlet.ProgressLine())
    assert manifest.details["language"] == "english"
    assert "language" not in capsys.readouterr().err


@pytest.mark.parametrize(("text", "is_taken"), [(GERMAN, True), (ENGLISH, False)])
def test_the_multilingual_encoder_is_taken_where_it_is_needed(cache, tmp_path, text, is_taken):
    place = cache / "multilingual"
    shutil.copytree(DEFAULT_ENCODER, place)
    change_details(place, {"weight": 0.94})
    rows = [{"id": "en", "text": ENGLISH}, {"id": "other", "text": text}]
    manifest = swiftlet.build(rows, tmp_path / "i", encoder="auto")
    assert manifest.details["num_documents"] == 2
    assert manifest.details.get(PLACE) == (f"{place}" if is_taken else None)
    with swiftlet.open(tmp_path / "i") as searcher:
        assert searcher.weight == (0.94 if is_taken else DEFAULT_WEIGHT)
    assert swiftlet.reset_weight(tmp_path / "i") == searcher.weight


@pytest.mark.parametrize("encoder", ["auto", LOOKUP_QUERY_ENCODER])
def test_without_a_multilingual_encoder_the_one_that_ships_is_taken_and_a_note_names_the_other(
    cache, tmp_path, capsys, encoder
):
    rows = [{"id": "de", "text": GERMAN}]
    swiftlet.build(rows, tmp_path / "i", encoder=encoder, progress=swiftlet.ProgressLine())
    said = capsys.readouterr().err
    assert "run swiftlet encoders get multilingual, which needs the extra export" in said
    assert "again with --encoder multilingual, as in swiftlet up FOLDER --encoder multil" in said


def test_notes_whose_language_is_not_known_are_no_vote_for_the_one_that_is(cache, tmp_path, capsys):
    shutil.copytree(DEFAULT_ENCODER, cache / "multilingual")
    notes = ["studies in pottery", "buy milk and eggs", "Call the dentist", "Rent paid"]
    texts = [GERMAN, *notes]
    rows = [{"id": text, "text": text} for text in texts]
    manifest = swiftlet.build(
        rows, tmp_path / "i", encoder="auto", progress=swiftlet.ProgressLine()
    )
    assert manifest.details["languages"] == {"de": 0.2}
    assert PLACE not in manifest.details
    said = capsys.readouterr().err
    assert "1 of 5 documents is German; the language of 4 is not known" in said
    assert "encoder" not in said
    with swiftlet.open(tmp_path / "i") as searcher:
        for query, text in (("buying", notes[1]), ("study", notes[0]), ("Haus", GERMAN)):
            found = searcher.search(query, mode="lexical").hits
            assert [hit.document_id for hit in found] == [text]
