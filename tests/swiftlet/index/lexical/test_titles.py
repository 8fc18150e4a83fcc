"""Titles that are found while they are typed."""

import sqlite3
from collections.abc import Callable, Sequence
from random import Random

import pytest

from swiftlet.index.documents.passages import LONGEST_TITLE
from swiftlet.index.documents.store import SCHEMA, DocumentStore
from swiftlet.index.lexical import titles as module
from swiftlet.index.lexical.titles import TitleIndex, is_near
from swiftlet.types import Document

TITLES = [
    "The volcano rabbit",
    "Vulcan",
    "Volcanoes of Iceland",
    "Volcano",
    "A history of volcanoes",
    "Café Crème",
    "",
    " ",
    "café crème ",
    "<b>Alps</b> & sea",
]

MakeTitles = Callable[[Sequence[str]], TitleIndex]


@pytest.fixture
def make_titles(tmp_path) -> MakeTitles:
    def make(titles: Sequence[str]) -> TitleIndex:
        path = tmp_path / "documents.sqlite"
        with sqlite3.connect(path) as connection:
            connection.executescript(SCHEMA)
            connection.executemany(
                "INSERT INTO documents VALUES (?, ?, ?, '{}', '[]', 'A text.')",
                [(number, f"d{number}", title) for number, title in enumerate(titles)],
            )
        return TitleIndex(DocumentStore(path), lambda: True)

    return make


def found(titles: TitleIndex, text: str, most: int = 8) -> list[str]:
    return [suggestion.title for suggestion in titles.find(text, most)]


def test_titles_are_found_that_were_committed_one_at_a_time(make_titles, monkeypatch):
    monkeypatch.setattr(module, "_CHARACTERS_AT_ONCE", 1)
    titles = make_titles([f"{title} {number}" for number in range(3) for title in TITLES])
    assert len(titles.find("volcano", 20)) == 12


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # An error in a letter, a missing one, a further one, and two that are exchanged.
        ("volxano", ["Volcano", "Volcanoes of Iceland", TITLES[0], TITLES[4]]),
        ("vocano", ["Volcano", "Volcanoes of Iceland", TITLES[0], TITLES[4]]),
        ("vollcano", ["Volcano", "Volcanoes of Iceland", TITLES[0], TITLES[4]]),
        ("VOCLANO", ["Volcano", "Volcanoes of Iceland", TITLES[0], TITLES[4]]),
        ("vocxano", []),
        ("rabbti volc", [TITLES[0]]),
        # Each word has to be there, only the last one may be a beginning.
        ("history of volc", [TITLES[4]]),
        ("hist of volc", []),
        # Words of three letters have no error; what has none comes first.
        ("vlo", []),
        ("vol", ["Volcano", "Volcanoes of Iceland", TITLES[0], TITLES[4]]),
        ("vulc", ["Vulcan", "Volcano", "Volcanoes of Iceland", TITLES[0], TITLES[4]]),
        ("CAFE creme", ["Café Crème"]),
        ("alps sea", ["<b>Alps</b> & sea"]),
        ("?!", []),
    ],
)
def test_titles_have_the_typed_words_but_for_one_error_each(make_titles, text, expected):
    assert found(make_titles(TITLES), text) == expected


def test_what_was_typed_is_marked_in_characters(make_titles):
    titles = make_titles(["🌋 The Volcanoes of Iceland", "Crème brûlée"])
    (one,) = titles.find("voclanoes icel", 8)
    assert [one.title[start:end] for start, end in one.highlights] == ["Volcanoes", "Icel"]
    (other,) = titles.find("brule", 8)
    assert [other.title[start:end] for start, end in other.highlights] == ["brûlé"]


def test_a_title_that_many_documents_have_is_offered_once_and_hides_no_other(make_titles):
    titles = make_titles([*["Page"] * 250, "page ", *["Pages"] * 120, "A page", "Paged"])
    assert found(titles, "page") == ["Page", "Paged", "Pages", "A page"]
    assert titles.find("page", 1)[0][:2] == ("d0", "Page")


def test_titles_that_begin_with_the_text_come_before_hundreds_that_do_not(make_titles):
    titles = make_titles([*(f"{number} sea" for number in range(300)), "Sea salt"])
    assert found(titles, "sea", 1) == ["Sea salt"]
    assert len(found(titles, "sea", 20)) == 20


def test_titles_follow_the_changes_of_the_index(make_titles):
    titles = make_titles(["Volcano", "Glacier", "Harbour"])
    titles.follow({"d0": None, "d1": Document("d1", "", "Volcanology")})
    assert (found(titles, "volcano"), found(titles, "glacier")) == (["Volcanology"], [])
    changed = {"d0": Document("d0", "", "Vulcan"), "d1": None, "new": Document("new", "", "Volt")}
    titles.follow(changed)
    titles.follow(changed)
    assert (found(titles, "v"), found(titles, "h")) == (["Volt", "Vulcan"], ["Harbour"])


def distance(one: str, other: str) -> int:
    """The number of errors, as dynamic programming finds it."""
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b)))
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]


def test_the_index_and_the_marks_allow_the_same_errors(make_titles):
    random = Random(0)
    words = ["".join(random.choices("abc", k=random.randint(1, 7))) for _ in range(80)]
    titles = make_titles(words)
    for _ in range(300):
        typed = "".join(random.choices("abc", k=random.randint(1, 6)))
        most = int(len(typed) >= 4)
        near = {
            word
            for word in words
            if any(distance(typed, word[:end]) <= most for end in range(len(word) + 1))
        }
        assert {word for word in words if is_near(typed, word, is_beginning=True)} == near
        assert set(found(titles, typed, 80)) == near
        whole = {word for word in words if distance(typed, word) <= most}
        assert {word for word in words if is_near(typed, word)} == whole


@pytest.mark.parametrize("other", ["Oil {} crisis of the year", "Oil crisis {}"])
def test_a_title_that_is_the_text_comes_first_however_many_are_like_it(make_titles, other):
    titles = make_titles([*(other.format(number) for number in range(150)), "Oil crisis"])
    assert found(titles, "oil crisis", 1) == ["Oil crisis"]


def test_long_titles_are_highlighted_at_their_beginning(make_titles):
    (suggestion,) = make_titles(["Zebra " + "ab cd " * 1600]).find("cd " * 60, 8)
    assert 0 < len(suggestion.highlights) <= 50
    assert suggestion.highlights[0] == (9, 11)


@pytest.mark.parametrize(
    ("title", "typed", "marked"),
    [
        ("Frau Mu\u0308ller", "M\u00fcl", "Mu\u0308l"),
        ("Frau M\u00fcller", "mu\u0308ller", "M\u00fcller"),
        ("infor\u00admation", "information", "infor\u00admation"),
        ("\u6771\u4eac\u90fd\u306e\u6b74\u53f2", "\u4eac\u90fd", "\u4eac\u90fd"),
        ("\u6771\u4eac\u90fd\u306e\u6b74\u53f2", "\u6b74", "\u6b74"),
        ("\u0926\u094b\u0938\u094d\u0924", "\u0926\u094b\u0938\u094d", "\u0926\u094b\u0938\u094d"),
        ("\u6771\u4eac\u2f24\u5b66", "\u5927\u5b66", "\u2f24\u5b66"),
        ("\ufb01sh", "fish", "\ufb01sh"),
        ("\u1112\u1161\u11ab\u1100\u116e", "\ud55c\uad6c", "\u1112\u1161\u11ab\u1100\u116e"),
    ],
)  # fmt: skip
def test_titles_are_found_and_marked_in_any_form_of_unicode(make_titles, title, typed, marked):
    (one,) = make_titles([title, "Something else"]).find(typed, 8)
    assert one.title == title
    assert "".join(title[start:end] for start, end in one.highlights) == marked


def test_titles_that_differ_in_their_form_alone_are_one(make_titles):
    assert found(make_titles(["M\u00fcller", "Mu\u0308ller"]), "muller") == ["M\u00fcller"]


def test_of_a_long_title_the_beginning_is_suggested(make_titles):
    title = "Volcano " + "lava " * 400_000
    assert found(make_titles([title]), "volc") == [title[:LONGEST_TITLE]]
