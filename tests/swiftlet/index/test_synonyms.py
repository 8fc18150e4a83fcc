"""Words stand for others in searches by words, as a file says."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swiftlet
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import CollectionError, CorruptIndexError, InvalidArgumentError
from swiftlet.index import synonyms
from swiftlet.index.changes.joint import JointLexical
from swiftlet.index.lexical.analysis import analysis_of
from swiftlet.index.lexical.index import LexicalIndex, TantivyQuery
from swiftlet.index.lexical.writer import GrowingWords, write_lexical_index
from swiftlet.index.synonyms import set_synonyms
from swiftlet.manifest import read_manifest, write_manifest
from swiftlet.search.searcher import Searcher
from tests.command_line import swiftlet as command

ROWS = [
    {"_id": "tv", "text": "the television and the radio"},
    {"_id": "k8s", "text": "kubernetes runs it"},
    {"_id": "both", "text": "television, telly"},
]
FILE = "# of our house\ntv, Televisions, telly # and so on\n\nk8s => kubernetes, swarm\n"


@pytest.fixture
def index(tmp_path) -> Path:
    swiftlet.build(ROWS, tmp_path / "index", encoder=LOOKUP_QUERY_ENCODER, language="english")
    return tmp_path / "index"


def found(searcher: Searcher, query: str, **fields: object) -> dict[str, float]:
    searcher.refresh()
    hits = searcher.search(query, mode="lexical", **fields).hits
    return {hit.document_id: hit.score for hit in hits}


def file_of(tmp_path: Path, text: str) -> Path:
    (tmp_path / "synonyms.txt").write_text(text, "utf-8")
    return tmp_path / "synonyms.txt"


def test_a_running_searcher_takes_synonyms_and_loses_them(index, tmp_path):
    with swiftlet.open(index, encoder=LOOKUP_QUERY_ENCODER) as searcher:
        plain = found(searcher, "telly"), found(searcher, "radio")
        assert found(searcher, "k8s") == found(searcher, "tv") == {}
        done = command("synonyms", index, file_of(tmp_path, FILE))
        assert "4 words have synonyms now" in done.stdout
        assert found(searcher, "tv").keys() == found(searcher, "telly").keys() == {"tv", "both"}
        assert found(searcher, "k8s").keys() == {"k8s"}
        assert found(searcher, "swarm") == {}, "the arrow points one way"
        hit = searcher.search("tv", 1, mode="lexical", highlight="words").hits[0]
        assert hit.passage.text[slice(*hit.highlights[0])] == "television"
        assert found(searcher, "radio") == plain[1]
        assert "0 words have synonyms now" in command("synonyms", index, "--reset").stdout
        assert (found(searcher, "telly"), found(searcher, "radio")) == plain
        assert not found(searcher, "k8s")


def test_a_document_has_the_best_score_of_a_word_and_its_synonyms(index, tmp_path):
    set_synonyms(index, file_of(tmp_path, "television, telly"))
    with swiftlet.open(index, encoder=LOOKUP_QUERY_ENCODER) as searcher:
        assert found(searcher, "telly") == found(searcher, "television")
        sums = found(searcher, "telly television")  # here both are asked for
        assert sums["both"] > sums["tv"]


def test_synonyms_hold_for_changes_and_after_a_merge(index, tmp_path):
    with (
        swiftlet.open(index, encoder=LOOKUP_QUERY_ENCODER) as searcher,
        swiftlet.write(index, encoder=LOOKUP_QUERY_ENCODER) as writer,
    ):
        writer.put([{"_id": "new", "text": "a telly", "kind": "a"}])
    set_synonyms(index, file_of(tmp_path, FILE))
    with (
        swiftlet.open(index, encoder=LOOKUP_QUERY_ENCODER) as searcher,
        swiftlet.write(index, encoder=LOOKUP_QUERY_ENCODER) as writer,
    ):
        assert found(searcher, "tv").keys() == {"new", "tv", "both"}
        assert found(searcher, "tv", filter={"kind": "a"}).keys() == {"new"}
        writer.delete(["tv"])
        assert writer.compact()
        assert found(searcher, "tv").keys() == {"new", "both"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tv, telly\ntv\n", r"synonyms.txt, line 2: one word alone is given: write tv, "),
        ("nyc => new york", r"line 1: 'new york' is given, but one word between commas"),
        ("tv,, telly", r"line 1: '' is given, but one word"),
        ("k8s =>", r"line 1: '' is given"),
        ("=> k8s", r"line 1: '' is given"),
        ("東京都, tokyo", r"line 1: '東京都' is given"),
        ("", "is empty"),
        ("a => z\nb => z\nc => z\nd => z\ne => z", "line 5: at most 4 words may have synonyms"),
    ],
)
def test_a_wrong_file_is_refused_by_a_sentence_with_the_line(
    index, tmp_path, monkeypatch, text, message
):
    monkeypatch.setattr(synonyms, "MOST_SYNONYMS", 4)
    before = read_manifest(index)
    with pytest.raises(CollectionError, match=message):
        set_synonyms(index, file_of(tmp_path, text))
    assert read_manifest(index) == before


def test_an_index_without_words_has_no_synonyms(tmp_path):
    swiftlet.build(ROWS, tmp_path / "index", encoder=LOOKUP_QUERY_ENCODER, language=None)
    with pytest.raises(InvalidArgumentError, match="has no words that could have synonyms"):
        set_synonyms(tmp_path / "index", file_of(tmp_path, FILE))


def test_the_command_takes_a_file_or_reset(index, tmp_path):
    for arguments in ([], [file_of(tmp_path, FILE), "--reset"]):
        assert (
            "give a file of synonyms, or --reset alone"
            in command("synonyms", index, *arguments).stderr
        )


@pytest.mark.parametrize("forged", [["tv"], {"tv": "telly"}, {"tv": [1]}])
def test_forged_synonyms_are_refused(index, forged):
    manifest = read_manifest(index)
    write_manifest(index, replace(manifest, details={**manifest.details, "synonyms": forged}))
    with pytest.raises(CorruptIndexError, match="are no lists of words"):
        swiftlet.open(index, encoder=LOOKUP_QUERY_ENCODER)


WORDS = ["tea", "coffee", "snow", "lava"]
SYNONYMS = {"tea": ["coffee", "cocoa"], "ice": ["snow", "lava"], "coffee": ["tea"]}


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=10),
    st.lists(st.sampled_from([*WORDS, "ice", "laav", "xyz"]), max_size=4),
    st.integers(0, 10),
)
@settings(max_examples=25)
def test_all_paths_agree_and_other_queries_are_searched_as_ever(passages, query, cut):
    texts, text, every = [*map(" ".join, passages)], " ".join(query), np.arange(len(passages))
    with TemporaryDirectory() as folder:
        write_lexical_index(Path(folder, "words"), ((each, ()) for each in texts), "none")
        index = LexicalIndex.open(Path(folder, "words"), "none")
        words, parsed = index.words(text, synonyms=SYNONYMS), index.parse(text, synonyms=SYNONYMS)
        expected = TantivyQuery(index, words).scores(every)
        np.testing.assert_allclose(parsed.scores(every), expected, rtol=1e-5)
        assert sorted(parsed.search(99)[1]) == np.flatnonzero(expected).tolist()
        if not SYNONYMS.keys() & {*query}:
            assert words == index.words(text)
        write_lexical_index(Path(folder, "base"), ((each, ()) for each in texts[:cut]), "none")
        base = LexicalIndex.open(Path(folder, "base"), "none")
        changes = GrowingWords(analysis_of("none")).with_texts(texts[cut:])
        joint = JointLexical(base, changes).parse(text, synonyms=SYNONYMS)
        assert sorted(joint.search(99)[1]) == sorted(parsed.search(99)[1])
