"""The arrays of postings give the scores of tantivy, more exactly."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.disk import save_array
from swiftlet.errors import CorruptIndexError
from swiftlet.index.lexical.index import LexicalIndex, PostingsQuery, TantivyQuery
from swiftlet.index.lexical.postings import FILES, MOST_ROWS, PostingsWriter, best_rows
from swiftlet.index.lexical.writer import write_lexical_index

QUERIES = ["w3 w5.a0 w3", "w1 w2 w777", "w10.a3 w12 über", "unknown w9", "unknown", ""]
TEXTS = ["tea and snow", "tea tea", "", "snow"]


def opened(folder: Path, texts: list[str], language: str = "none") -> LexicalIndex:
    write_lexical_index(folder, ((text, ()) for text in texts), language)
    return LexicalIndex.open(folder, language)


@given(st.integers(0, 10**6), st.sampled_from(["english", "none", "german", "english,german"]))
@settings(max_examples=20)
def test_scores_are_those_of_tantivy_to_five_digits(seed, language):
    random = np.random.default_rng(seed)
    words = (random.zipf(1.3, int(random.integers(0, 900))) % 10_000 for _ in range(60))
    texts = [" ".join(f"w{n}.a{n % 7}" if n % 5 == 0 else f"w{n}" for n in each) for each in words]
    everything, allowed = np.arange(60), random.random(60) < 0.5
    with TemporaryDirectory() as folder:
        index = opened(Path(folder, "words"), [*texts[:-1], "Über w12"], language)
        for query in QUERIES:
            parsed = index.parse(query)
            assert isinstance(parsed, PostingsQuery)
            expected = TantivyQuery(index, index.words(query)).scores(everything)
            np.testing.assert_allclose(parsed.scores(everything), expected, rtol=1e-5)
            scores, rows = parsed.search(60)
            assert sorted(rows) == np.flatnonzero(expected).tolist()
            np.testing.assert_allclose(scores, expected[rows], rtol=1e-5)
            scores, rows = index.restricted_to(allowed).parse(query).search(5)
            best = np.sort(expected[allowed & (expected > 0)])[::-1][:5]
            np.testing.assert_allclose(scores, best, rtol=1e-5)
            assert allowed[rows].all()


@given(
    st.lists(st.sampled_from([0.0, 0.5, 2.0]) | st.floats(0, 1), max_size=300),
    st.integers(1, 20) | st.integers(1, 400),
)
def test_the_best_rows_are_the_first_of_all_in_order(scores, most):
    order = sorted((-score, row) for row, score in enumerate(scores) if score > 0)
    found = best_rows(np.array(scores, np.float64), most)
    assert found.tolist() == [row for _, row in order[:most]]


def test_an_index_of_before_has_no_postings_and_finds_the_same(tmp_path):
    index = opened(tmp_path / "words", TEXTS)
    for name in FILES:
        (tmp_path / "words" / name).unlink()
    before = LexicalIndex.open(tmp_path / "words", "none")
    assert before.postings is None
    for query in ("tea", "snow tea", "other"):
        (scores, rows), (expected, same) = (each.parse(query).search(4) for each in (index, before))
        assert rows.tolist() == same.tolist()
        np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_postings_that_the_manifest_does_not_list_are_not_read(tmp_path):
    opened(tmp_path / "words", TEXTS)
    names = [each.name for each in (tmp_path / "words").iterdir() if each.name != FILES[2]]
    assert LexicalIndex.open(tmp_path / "words", "none", names=names).postings is None


@pytest.mark.parametrize(
    ("name", "array"),
    [
        (FILES[0], np.array([5, 3, 9], "<u8")),
        (FILES[1], np.array([0, 2, 1, 5], "<u4")),
        (FILES[1], np.array([0, 2, 3, 9], "<u4")),
        (FILES[2], np.array([0, 1, 0, 3, 4], "<u2")),
        (FILES[2], np.array([0, 1, 0, 3, 3], "<u4")),
        (FILES[3], np.array([0.5, 0.5], "<f4")),
        (FILES[3], np.array([0.5, 0.5, 0.5, 0.5, np.nan], "<f4")),
    ],
)
def test_postings_that_do_not_belong_together_are_refused(tmp_path, name, array):
    opened(tmp_path / "words", TEXTS)
    save_array(tmp_path / "words" / name, array)
    with pytest.raises(CorruptIndexError, match="postings do not belong together"):
        LexicalIndex.open(tmp_path / "words", "none")


def test_more_passages_than_rows_have_numbers_get_no_postings(tmp_path):
    writer = PostingsWriter()
    for _ in range(MOST_ROWS + 1):
        writer.add(["tea"])
    writer.save(tmp_path)
    assert not [*tmp_path.iterdir()]
