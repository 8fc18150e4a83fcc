"""HTML, Word and PDF files as documents; needs the extra `files`."""

import logging
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from swiftlet.corpora.text_files import Part, markdown_part
from swiftlet.corpora.word import word_parts
from swiftlet.errors import CollectionError
from swiftlet.extras import extra

_HTML, _WORD, _PDF = frozenset({".html", ".htm", ".xhtml"}), ".docx", ".pdf"
RICH_SUFFIXES = _HTML | {_WORD, _PDF}
_HEAD_BYTES = 10_000
_LEVELS = ("h1", "h2", "h3", "h4", "h5", "h6")
_BLOCKS = (*_LEVELS, "p", "pre", "li", "dt", "dd", "td", "th", "blockquote")
_HEADINGS = re.compile(r"^#{1,6} ", re.MULTILINE)
_LEAST_SHARE = 0.9
_MOST_PAGES = 10
_RECOGNISE = "have its text recognised first (OCR)"


def can_read(suffix: str) -> bool:
    """Whether the package that reads files of this suffix is installed."""
    package = {_WORD: "docx", _PDF: "pypdfium2"}.get(suffix, "trafilatura")
    return find_spec(package) is not None


def rich_parts(path: Path, content: bytes) -> Iterator[Part | CollectionError]:
    """The document of an HTML or Word file, or the documents of the pages of a PDF.

    An error stands for pages with pictures and no text, in a PDF with text on other pages.

    :raises CollectionError: When it is damaged or encrypted, or has no text.
    :raises MissingExtraError: When the package that reads it is not installed.
    """
    readers: dict[str, Callable[[Path, bytes], Iterator[Part | CollectionError]]] = {
        _WORD: word_parts,
        _PDF: _pages,
    }
    with extra("files"):
        found = False
        for part in readers.get(path.suffix.lower(), _web_page)(path, content):
            found |= isinstance(part, Part)
            if found:
                yield part
    if not found:
        problem = f": if it is scanned, {_RECOGNISE}" if path.suffix.lower() == _PDF else ""
        raise CollectionError(path, f"the file has no text{problem}")


def _web_page(path: Path, content: bytes) -> Iterator[Part]:
    """The main text of a page as Markdown, without navigation; all of it if none is found."""
    import trafilatura

    # Of bad pages, the package writes to the log what the missing text says, too.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    if b"<html" not in content[:_HEAD_BYTES].lower():  # the package takes whole pages only
        content = b"<html><body>" + content + b"</body></html>"
    text = trafilatura.extract(
        content,
        output_format="markdown",
        include_formatting=True,
        include_comments=False,
        favor_recall=True,
    )
    text = text or trafilatura.html2txt(content)
    if not _HEADINGS.search(text or ""):
        # On some layouts, the package takes the text and loses its headings and code.
        own = _blocks(content)
        if _HEADINGS.search(own) and len(own) >= _LEAST_SHARE * len(text or ""):
            text = own
    if text:
        found = trafilatura.extract_metadata(content)
        yield markdown_part(text, (found and found.title) or path.stem)


def _blocks(content: bytes) -> str:
    """The headings, paragraphs, items and code of a page as Markdown."""
    import lxml.html  # type: ignore[import-untyped]

    tree = lxml.html.document_fromstring(content)
    for left_out in tree.xpath("//nav|//header|//footer|//aside|//script|//style|//form"):
        left_out.drop_tree()
    blocks = []
    for element in tree.iter(*_BLOCKS):
        if any(each.tag in _BLOCKS for each in element.iterancestors()):
            continue
        text = element.text_content()
        if element.tag == "pre":
            blocks.append(f"```\n{text.strip()}\n```")
        elif words := " ".join(text.split()):
            level = int(element.tag[1]) if element.tag in _LEVELS else 0
            blocks.append(f"{'#' * level} {words}".lstrip())
    return "\n\n".join(blocks)


def _pages(path: Path, content: bytes) -> Iterator[Part | CollectionError]:
    """The pages of a PDF that have text, and an error for those that have pictures alone."""
    import pypdfium2
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    try:
        with pypdfium2.PdfDocument(content) as document:
            title = document.get_metadata_dict().get("Title") or path.stem
            pictures = []
            for number, page in enumerate(document, start=1):
                text = page.get_textpage().get_text_range().replace("\r\n", "\n").strip()
                if text:
                    place = {"page": number, "pages": len(document)}
                    yield Part(text, title, place=f"#page={number}", metadata=place)
                elif any(page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE])):
                    pictures.append(f"{number:,}")
        if pictures:
            pages = (
                f"{'pages' if len(pictures) > 1 else 'page'} {', '.join(pictures[:_MOST_PAGES])}"
            )
            more = (
                f" and {len(pictures) - _MOST_PAGES:,} more" if len(pictures) > _MOST_PAGES else ""
            )
            yield CollectionError(path, f"no text on {pages}{more}, only pictures: {_RECOGNISE}")
    except pypdfium2.PdfiumError as error:
        problem = f"cannot be read as a PDF: {error}"
        if "password" in f"{error}":
            problem = "the PDF is encrypted: save it without a password"
        raise CollectionError(path, problem) from error
