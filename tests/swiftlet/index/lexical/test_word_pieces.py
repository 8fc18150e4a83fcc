"""Lexical indexes of word pieces, and of pairs of them."""

from itertools import pairwise
from pathlib import Path

import pytest

import swiftlet
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.lexical.analysis import PIECES, PIECES_AND_PAIRS, WORD_PIECES, analysis_of
from swiftlet.manifest import read_manifest

TEXTS = {
    "order": "the dog bites the man",
    "other": "the man bites the dog",
    "chinese": "\u65e5\u672c\u4eba\u7684\u5927\u5b66",
    "tokyo": "\u6771\u4eac\u7684\u5927\u5b66",
    "long": "Donaudampfschifffahrtsgesellschaft",
    "numbers": "1996 and 2003 are years",
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(DEFAULT_ENCODER / "tokenizer.json")


@pytest.fixture(scope="module", params=PIECES)
def language(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def index(language, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("pieces") / "index"
    rows = [{"_id": name, "text": text} for name, text in TEXTS.items()]
    swiftlet.build(rows, place, language=language)
    return place


def found(index: Path, query: str) -> list[str]:
    with swiftlet.open(index) as searcher:
        return [hit.document_id for hit in searcher.search(query, mode="lexical").hits]


def test_words_are_the_tokens_of_the_encoder_and_pairs_of_them(tokenizer):
    text = "swiftlets in the snow"
    pieces = [f"{piece}" for piece in tokenizer.encode(text)[1:-1]]
    assert len(pieces) > len(text.split())
    assert analysis_of(WORD_PIECES, tokenizer).words(text) == pieces
    pairs = [f"{a}_{b}" for a, b in pairwise(pieces)]
    assert analysis_of(PIECES_AND_PAIRS, tokenizer).words(text) == pieces + pairs


def test_a_text_is_read_to_its_end_and_unknown_characters_are_no_words(tokenizer):
    analysis = analysis_of(WORD_PIECES, tokenizer)
    assert len(analysis.words("snow " * 50_000)) == 50_000
    assert analysis.words("\U0001f9ec \U000f0000") == []


def test_parts_of_words_and_texts_without_spaces_are_found(index):
    assert found(index, "\u65e5\u672c")[0] == "chinese"
    assert found(index, "\u6771\u4eac")[0] == "tokyo"
    assert found(index, "donaudampf")[0] == "long"


def test_pairs_tell_the_order_of_words(index, language):
    with swiftlet.open(index) as searcher:
        hits = searcher.search("man bites", mode="lexical").hits
    scores = {hit.document_id: hit.score for hit in hits}
    if language == PIECES_AND_PAIRS:
        assert scores["other"] > 1.2 * scores["order"]
    else:
        assert scores["other"] == pytest.approx(scores["order"])


def test_changes_and_merges_keep_the_language(language, tmp_path, tokenizer):
    rows = [{"_id": name, "text": text} for name, text in TEXTS.items()]
    swiftlet.build(rows, tmp_path / "index", language=language)
    with swiftlet.write(tmp_path / "index") as writer:
        writer.put([{"_id": "new", "text": "\u5c71\u7684\u6c34"}])
        assert found(tmp_path / "index", "\u5c71")[0] == "new"
        assert writer.compact()
    assert found(tmp_path / "index", "\u5c71")[0] == "new"
    assert read_manifest(tmp_path / "index").details["language"] == language
    copy = Tokenizer.load(tmp_path / "index" / "lexical" / "tokenizer.json")
    assert copy.encode("snow") == tokenizer.encode("snow")


def test_hybrid_searches_and_measurements_work_and_pieces_are_not_highlighted(index):
    with swiftlet.open(index) as searcher:
        hits = searcher.search("the man and the dog, 1996", highlight="words").hits
    assert len(hits) == len(TEXTS)
    assert not any(hit.highlights for hit in hits)
    assert swiftlet.fidelity(index, {"q": "man bites", "r": "years"}, rank=1).num_texts == 6


def test_a_corpus_alone_has_no_word_pieces():
    rows = [{"_id": name, "text": text} for name, text in TEXTS.items()]
    with pytest.raises(InvalidArgumentError, match="needs the tokenizer of an encoder: give an"):
        swiftlet.fidelity(rows, {"q": "man"}, rank=1, language=WORD_PIECES)
