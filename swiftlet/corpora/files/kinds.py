"""Kinds of files by their suffixes: the name of each, what reads it, and what this needs."""

import shutil
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import NamedTuple

from swiftlet.corpora.files import code, mail, markup, picture, structured
from swiftlet.corpora.files.office import book, packages, sheets
from swiftlet.corpora.files.office.word import word_parts
from swiftlet.corpora.files.pdf import pdf_parts
from swiftlet.corpora.files.text import (
    MARKDOWN_SUFFIXES,
    TEXT_SUFFIXES,
    Reader,
    markdown_parts,
    text_parts,
)
from swiftlet.corpora.files.web import web_parts
from swiftlet.errors import RetrievalError

ENTRY_POINTS = "swiftlet.readers"
"""The group of entry points: the name is a suffix such as ".dwg", the object a `Reader`."""


class Kind(NamedTuple):
    """What files of a suffix are, as the field `kind` says it, and the package that `read` needs.

    `package` is empty if none is needed. `program` has to be on the machine.
    """

    name: str
    read: Reader
    package: str = ""
    program: str = ""


_WORD = Kind("word", lambda path, content, _: word_parts(path, content), "docx")
_PDF = Kind("pdf", lambda path, content, _: pdf_parts(path, content), "pypdfium2")
_MAIL = Kind("mail", mail.message_parts)
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(TEXT_SUFFIXES, Kind("text", text_parts)),
    **dict.fromkeys(MARKDOWN_SUFFIXES, Kind("markdown", markdown_parts)),
    **dict.fromkeys((".html", ".htm", ".xhtml"), Kind("html", web_parts, "lxml")),
    ".docx": _WORD,
    ".pdf": _PDF,
    ".odt": Kind("word", packages.text_parts, "lxml"),
    ".pptx": Kind("slides", packages.slide_parts, "lxml"),
    ".odp": Kind("slides", packages.page_parts, "lxml"),
    ".xlsx": Kind("sheet", sheets.workbook_parts, "lxml"),
    ".ods": Kind("sheet", sheets.table_parts, "lxml"),
    ".epub": Kind("book", book.book_parts, "lxml"),
    ".rtf": Kind("word", markup.rtf_parts, "striprtf"),
    ".eml": _MAIL,
    ".mbox": Kind("mail", mail.mailbox_parts),
    ".msg": Kind("mail", mail.outlook_parts),
    ".tex": Kind("latex", markup.latex_parts),
    ".org": Kind("org", markup.org_parts),
    ".srt": Kind("subtitles", markup.subtitle_parts),
    ".vtt": Kind("subtitles", markup.subtitle_parts),
    ".ipynb": Kind("notebook", structured.notebook_parts),
    ".json": Kind("json", structured.json_parts),
    ".xml": Kind("xml", structured.xml_parts, "lxml"),
    **{suffix: Kind(name, code.code_parts) for suffix, name in code.LANGUAGES.items()},
    **dict.fromkeys(picture.SUFFIXES, Kind("picture", picture.picture_parts, "", picture.PROGRAM)),
}
RICH_SUFFIXES = frozenset(suffix for suffix, kind in _KINDS.items() if kind.package)
DOCUMENT_SUFFIXES = frozenset(_KINDS) - {*code.LANGUAGES} - {*picture.SUFFIXES}
"""Those that messages list: all but source code and pictures."""


def is_known(suffix: str) -> bool:
    """Whether there is a reader of files of this suffix, perhaps without what it needs."""
    return suffix in _KINDS or suffix in _plugins()


def can_read(suffix: str) -> bool:
    """Whether there is a reader of files of this suffix, and what it needs is installed."""
    if suffix in _plugins():
        return True
    kind = _KINDS.get(suffix)
    return (
        kind is not None
        and (not kind.package or find_spec(kind.package) is not None)
        and (not kind.program or shutil.which(kind.program) is not None)
    )


def kind_of(suffix: str) -> Kind:
    """The kind of files of a known suffix; a plugin's reader comes before ours.

    :raises RetrievalError: When a plugin cannot be loaded.
    """
    if (entry := _plugins().get(suffix)) is None:
        return _KINDS[suffix]
    try:
        read = entry.load()
    except Exception as error:  # whatever the module of another package raises
        raise RetrievalError(f"the plugin {entry.value} cannot be loaded: {error}") from error
    return Kind(_KINDS[suffix].name if suffix in _KINDS else suffix.lstrip("."), read)


@cache
def _plugins() -> dict[str, EntryPoint]:
    return {f".{each.name.lstrip('.')}": each for each in entry_points(group=ENTRY_POINTS)}
