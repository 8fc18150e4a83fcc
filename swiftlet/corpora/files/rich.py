"""HTML, Word and PDF files as documents; needs the extra `files`."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from swiftlet.corpora.files.pdf import RECOGNISE, pdf_parts
from swiftlet.corpora.files.text import Part
from swiftlet.corpora.files.web import web_parts
from swiftlet.corpora.files.word import word_parts
from swiftlet.errors import CollectionError
from swiftlet.extras import extra

Reader = Callable[[Path, bytes], Iterator[Part | CollectionError]]

_WORD, _PDF = ".docx", ".pdf"
_READERS: dict[str, tuple[Reader, str]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), (web_parts, "trafilatura")),
    _WORD: (word_parts, "docx"),
    _PDF: (pdf_parts, "pypdfium2"),
}
RICH_SUFFIXES = frozenset(_READERS)


def can_read(suffix: str) -> bool:
    """Whether the package that reads files of this suffix is installed."""
    return find_spec(_READERS[suffix][1]) is not None


def rich_parts(path: Path, content: bytes) -> Iterator[Part | CollectionError]:
    """The document of an HTML or Word file, or the documents of the pages of a PDF.

    An error stands for pages with pictures and no text, in a PDF with text on other pages.

    :raises CollectionError: When it is damaged or encrypted, or has no text.
    :raises MissingExtraError: When the package that reads it is not installed.
    """
    read, _ = _READERS[path.suffix.lower()]
    with extra("files"):
        found = False
        for part in read(path, content):
            found |= isinstance(part, Part)
            if found:
                yield part
    if not found:
        problem = f": if it is scanned, {RECOGNISE}" if path.suffix.lower() == _PDF else ""
        raise CollectionError(path, f"the file has no text{problem}")
