"""Books in EPUB: a document for each chapter, which is a page of HTML."""

import posixpath
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from swiftlet.corpora.files.office.packages import Package
from swiftlet.corpora.files.text import Note, Part
from swiftlet.corpora.files.web import web_parts
from swiftlet.errors import CollectionError

_PAGES = frozenset({"application/xhtml+xml", "text/html"})


def book_parts(path: Path, content: bytes, note: Note) -> Iterator[Part | CollectionError]:
    """The chapters of a book that have text, in the order of reading."""
    package = Package(content)
    if "META-INF/encryption.xml" in package and "META-INF/rights.xml" in package:
        raise ValueError("it is protected against copying")
    rootfile = package.root("META-INF/container.xml").find(".//{*}rootfile")
    main = "" if rootfile is None else unquote(rootfile.get("full-path", ""))
    root, (title, fields) = package.root(main), package.about(main)
    items = {each.get("id"): each for each in root.iter("{*}item")}
    spine = (items.get(each.get("idref")) for each in root.iter("{*}itemref"))
    read = dict.fromkeys(
        posixpath.normpath(posixpath.join(posixpath.dirname(main), unquote(each.get("href", ""))))
        for each in spine
        if each is not None and each.get("media-type") in _PAGES
    )
    for number, name in enumerate(read, start=1):
        if name not in package:
            yield CollectionError(path, f"it has no part {name}")
            continue
        page = path.with_name(f"{title or path.stem}.xhtml")
        for part in web_parts(page, package.read(name), note):
            place = {**fields, "book": title, "chapter": number, "chapters": len(read)}
            yield replace(part, place=f"#chapter={number}", metadata=place)
