"""The words of PDF files that stand in no list, before and after reading.

    python -m experiments.file_words --files FILES --words WORDS

FILES has a folder for each Debian package, PACKAGE_VERSION, as `dpkg-deb -x` fills it. WORDS is a
list of words, one a line: /usr/share/dict/american-english of the package wamerican. Writes
docs/results/files.json and its page. It takes five minutes of one core.
"""

import gzip
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pypdfium2

from measuring.command_line import existing, refuse, script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from swiftlet.corpora.files.pdf import pdf_parts
from swiftlet.corpora.files.text import Part

MOST_PAGES, LEAST_WORDS = 1_000, 5_000
"""Longer and shorter PDF files are left out."""

WORD = re.compile(r"[^\W\d_]{2,}")


def main() -> None:
    raw = RESULTS / "files.json"
    options = script_options(__doc__, files=existing, words=existing, raw=raw)
    known = {*words_of(options.words.read_text("utf-8"))}
    packages = sorted(folder for folder in options.files.iterdir() if folder.is_dir())
    figures = {
        "template": "experiments/file_words.md.j2",
        "machine": describe_machine(["pypdfium2"], threads="1"),
        "bounds": [MOST_PAGES, LEAST_WORDS],
        "list": len(known),
        "pdf": [each for package in packages for each in of_pdf_files(package, known)],
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


if __name__ == "__main__":
    main()
