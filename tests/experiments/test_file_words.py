"""The words of real files before and after Swiftlet's reading, as the page of results has them."""

import json
import sys
from pathlib import Path

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from experiments import file_words


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command line with a package of one PDF, which has a divided word."""
    package = tmp_path / "files" / "birds-doc_1.0-1"
    package.mkdir(parents=True)
    figure = Figure()
    figure.text(0.1, 0.5, "Swifts give infor-\nmation to zzyzx")
    with rc_context({"pdf.fonttype": 42}):
        figure.savefig(package / "birds.pdf")
    (package / "copy.pdf").write_bytes((package / "birds.pdf").read_bytes())
    page = "<nav>all birds</nav><p>Swifts <b>gi</b>ve way.</p><noscript>scripts</noscript>"
    (package / "birds.html").write_text(f"<title>T</title>{page}", "utf-8")
    (tmp_path / "words").write_text("swifts\ngive\ninformation\nto\n")
    words = ["--files", tmp_path / "files", "--words", tmp_path / "words"]
    raw = tmp_path / "files.json"
    monkeypatch.setattr(sys, "argv", ["file_words", *map(str, words), "--raw", f"{raw}"])
    return raw


def test_words_are_counted_before_and_after(given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_words, "LEAST_WORDS", 1)
    monkeypatch.setattr(file_words, "LEAST_OF_PAGE", 1)
    file_words.main()
    figures = json.loads(given.read_text("utf-8"))
    (pdf,) = figures["pdf"]
    assert (pdf["words"], pdf["unknown"], pdf["divided"]) == ([6, 5], [3, 1], 1)
    page = given.with_suffix(".md").read_text("utf-8")
    assert "| birds.pdf of birds-doc 1.0-1 | 1 | 6 | 1 | 50.00% | 20.00% |" in page
    assert "| all 1 | 1 | 6 | 1 | 50.00% | 20.00% |" in page
    assert "| birds-doc 1.0-1 | 1 | 6 | 2 | 3 (50.00%) | 1 (25.00%) |" in page


def test_a_folder_without_a_long_pdf_is_refused(given: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        file_words.main()
    assert "no folder in it has a PDF with at least 5,000 words" in capsys.readouterr().err
    assert not given.exists()
