"""What reading does to words: those of PDF files that stand in no list, and those HTML pages lose.

    python -m experiments.file_words --files FILES --words WORDS

FILES has a folder for each Debian package, PACKAGE_VERSION, as `dpkg-deb -x` fills it. WORDS is a
list of words, one a line: /usr/share/dict/american-english of the package wamerican. Writes
docs/results/files.json and its page. It takes five minutes of one core.
"""

import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pypdfium2

from measuring.command_line import existing, refuse, script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from swiftlet.corpora.files.pdf import pdf_parts
from swiftlet.corpora.files.text import Part
from swiftlet.corpora.files.web import web_parts

MOST_PAGES, LEAST_WORDS = 1_000, 5_000
"""Longer and shorter PDF files are left out."""

MOST_OF_PACKAGE, LEAST_OF_PAGE = 9, 50
"""HTML pages of each package, evenly from its names in order; pages with fewer words are not."""

NOT_SHOWN = ("script", "style", "title", "template")
WITHIN_WORDS = (
    "a", "abbr", "acronym", "b", "big", "cite", "code", "dfn", "em", "font", "i", "kbd", "samp",
    "small", "span", "strong", "sub", "sup", "tt", "u", "var",
)  # fmt: skip
WITHOUT_END = ("area", "br", "col", "hr", "img", "input", "link", "meta", "wbr")
NAVIGATION = re.compile(r"nav|header|footer|sidebar|breadcrumb|search|related", re.IGNORECASE)
WORD = re.compile(r"[^\W\d_]{2,}")


def main() -> None:
    raw = RESULTS / "files.json"
    options = script_options(__doc__, files=existing, words=existing, raw=raw)
    known = {*words_of(options.words.read_text("utf-8"))}
    packages = sorted(folder for folder in options.files.iterdir() if folder.is_dir())
    figures = {
        "template": "experiments/file_words.md.j2",
        "machine": describe_machine(["pypdfium2", "lxml"], threads="1"),
        "bounds": [MOST_PAGES, LEAST_WORDS],
        "list": len(known),
        "pdf": [each for package in packages for each in of_pdf_files(package, known)],
        "web_bounds": [MOST_OF_PACKAGE, LEAST_OF_PAGE],
        "web": [each for package in packages for each in of_pages(package)],
        "earlier": json.loads(raw.read_text("utf-8"))["earlier"],
    }
    if not figures["pdf"]:
        bounds = f"at least {LEAST_WORDS:,} words and at most {MOST_PAGES:,} pages"
        refuse(f"{options.files}: no folder in it has a PDF with {bounds}", program="experiments")
    print(write(options.raw, figures))


def words_of(text: str) -> list[str]:
    """The parts of letters alone, at least two of them, in lower case."""
    return WORD.findall(text.lower())


def different(package: Path, *suffixes: str) -> dict[bytes, Path]:
    """What the files with these suffixes have, unpacked; the same content comes once."""
    found: dict[bytes, Path] = {}
    for path in sorted(package.rglob("*")):
        if path.name.endswith(suffixes) and path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            found.setdefault(gzip.decompress(content) if path.suffix == ".gz" else content, path)
    return found


def of_pdf_files(package: Path, known: Collection[str]) -> Iterator[Figures]:
    """How many words of each PDF file are not known: as PDFium has its text, and as we do."""
    for content, path in different(package, ".pdf", ".pdf.gz").items():
        with pypdfium2.PdfDocument(content) as document:
            if len(document) > MOST_PAGES:
                continue
            plain = [page.get_textpage().get_text_range() for page in document]
        ours = [each.text for each in pdf_parts(path, content) if isinstance(each, Part)]
        before, after = words_of("\n".join(plain)), words_of("\n".join(ours))
        if len(before) >= LEAST_WORDS:
            yield {
                "package": package.name, "file": path.name, "pages": len(plain),
                "divided": sum(text.count("\ufffe") for text in plain),
                "words": [len(before), len(after)],
                "unknown": [sum(word not in known for word in side) for side in (before, after)],
            }  # fmt: skip


class Shown(HTMLParser):
    """The text that a page shows, with a sign for what is marked as navigation, by tag or class.

    It is written apart from the reader, and knows nothing of it.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[bool, list[str]] = {False: [], True: []}
        self._open: list[tuple[str, bool]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that is open."""
        if tag not in WITHIN_WORDS:
            self._add(" ")
        if tag not in WITHOUT_END:
            names = [
                tag,
                *(value or "" for name, value in attrs if name in {"class", "id", "role"}),
            ]
            is_marked = tag not in {"html", "body"} and NAVIGATION.search(" ".join(names))
            self._open.append((tag, bool(is_marked) or any(marked for _, marked in self._open)))

    def handle_endtag(self, tag: str) -> None:
        """Close an element, and what is still open in it."""
        if tag in [name for name, _ in self._open]:
            while self._open.pop()[0] != tag:
                pass
        if tag not in WITHIN_WORDS:
            self._add(" ")

    def handle_data(self, data: str) -> None:
        """Keep a text that is shown."""
        if not any(name in NOT_SHOWN for name, _ in self._open):
            self._add(data)

    def _add(self, text: str) -> None:
        self.texts[bool(self._open) and self._open[-1][1]].append(text)


def of_pages(package: Path) -> Iterator[Figures]:
    """How many words of HTML pages are shown and not read, with and without navigation."""
    pages = different(package, ".html", ".htm", ".html.gz")
    counts = list[list[Counter[str]]]()
    for content, path in sorted(pages.items(), key=lambda each: each[1]):
        texts = Shown(content.decode("utf-8", "replace")).texts.values()
        rest, marked = (Counter(words_of("".join(each))) for each in texts)
        if rest.total() + marked.total() >= LEAST_OF_PAGE:
            parts = web_parts(path, content)
            counts.append([rest, marked, Counter(words_of("\n".join(part.text for part in parts)))])
    if chosen := counts[:: math.ceil(len(counts) / MOST_OF_PACKAGE) or 1]:
        yield {
            "package": package.name,
            "pages": len(chosen),
            "words": sum((rest + marked).total() for rest, marked, _ in chosen),
            "navigation": sum(marked.total() for _, marked, _ in chosen),
            "lost": sum((rest + marked - read).total() for rest, marked, read in chosen),
            "lost_text": sum((rest - read).total() for rest, _, read in chosen),
        }


if __name__ == "__main__":
    main()
