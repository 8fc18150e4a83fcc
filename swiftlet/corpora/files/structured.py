"""JSON, XML and notebooks as text."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from swiftlet.corpora.files.office.packages import local, tree_of
from swiftlet.corpora.files.text import Note, Part, markdown_part, text_of
from swiftlet.corpora.lines import reason_of
from swiftlet.errors import CollectionError

_TITLES = ("title", "name")
_LONGEST_OUTPUT = 2_000


def json_parts(path: Path, content: bytes, note: Note) -> Iterator[Part]:
    """The document of a JSON file: a line for each value, below the names that lead to it.

    A file that is damaged, or has comments, is read as it is.
    """
    text = text_of(path, content, note)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        note(f"{path.name} is read as text, since it is not valid JSON: {reason_of(error)}")
        yield Part(text, path.stem)
        return
    if lines := [*_lines(value if isinstance(value, dict | list) else [value], 0)]:
        names = (value[name] for name in _TITLES if isinstance(value, dict) and name in value)
        title = next((name for name in names if isinstance(name, str)), "")
        yield Part("\n".join(lines), title or path.stem)


def _lines(value: Any, depth: int) -> Iterator[str]:
    """Names and values, each level two spaces further right, up to ten levels."""
    indent = "  " * min(depth, 10)
    pairs: Any = value.items() if isinstance(value, dict) else (("", each) for each in value)
    for name, inner in pairs:
        head = f"{indent}{name}: " if name else f"{indent}- "
        if isinstance(inner, dict | list):
            if inner:
                if name:
                    yield head.rstrip()
                yield from _lines(inner, depth + bool(name))
        elif isinstance(inner, str):
            yield f"{head}{inner}"
        else:
            yield f"{head}{json.dumps(inner)}"


def xml_parts(path: Path, content: bytes, note: Note) -> Iterator[Part]:
    """The document of an XML file: a line for each element that has text of its own.

    A file that is damaged, or has its words in attributes, is read as it is.
    """
    from lxml import etree  # type: ignore[import-untyped]

    blocks, title = list[str](), ""
    try:
        root = tree_of(content)
    except etree.XMLSyntaxError as error:
        note(f"{path.name} is read as text, since it is not valid XML: {reason_of(error)}")
    else:
        _add_blocks(root, blocks)
        title = next((each.text or "" for each in root.iter("{*}title", "{*}name")), "")
    text = "\n".join(blocks) or text_of(path, content, note)
    yield Part(text, " ".join(title.split()) or path.stem)


def _add_blocks(element: Any, blocks: list[str]) -> None:
    mixed = (element.text or "").strip() or any((each.tail or "").strip() for each in element)
    if mixed:
        blocks.append(" ".join("".join(element.itertext()).split()))
    else:
        for child in element:
            if local(child):
                _add_blocks(child, blocks)


def notebook_parts(path: Path, content: bytes, note: Note) -> Iterator[Part | CollectionError]:
    """The document of a notebook: its Markdown, its code between fences, and printed text."""
    try:
        book = json.loads(text_of(path, content, note))
    except json.JSONDecodeError as error:
        problem = f"no valid JSON from column {error.colno} on ({error.msg}), so it is left out"
        raise CollectionError(path, problem, error.lineno) from error
    if not isinstance(book, dict):
        raise CollectionError(path, "it has no cells, as a notebook has, so it is left out")
    about = book.get("metadata", {})
    language = about.get("language_info", about.get("kernelspec", {})).get("name", "")
    sheets = book.get("worksheets", ())  # of earlier versions
    cells = book.get("cells") or [cell for sheet in sheets for cell in sheet["cells"]]
    blocks = list[str]()
    for cell in cells:
        source = _joined(cell.get("source", cell.get("input", "")))
        if cell.get("cell_type") == "code":
            shown = (_printed(each) for each in cell.get("outputs", ()))
            blocks += [_fenced(source, language), *(_fenced(each, "") for each in shown)]
        elif cell.get("cell_type") == "heading":
            blocks.append(f"{'#' * min(int(cell.get('level', 1)), 6)} {source}")
        else:
            blocks.append(source)
    if text := "\n\n".join(block for block in blocks if block.strip()):
        people = (each for each in about.get("authors", ()) if isinstance(each, dict))
        authors = (f"{each.get('name', '')}" for each in people)
        part = markdown_part(text, path.stem, f"{about.get('title', '')}")
        yield replace(part, metadata={"author": ", ".join(authors)})


def _joined(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(lines)


def _printed(output: Any) -> str:
    """The text of an output of a cell; pictures and pages are none."""
    found = output.get("text") or output.get("data", {}).get("text/plain") or ""
    return _joined(found)[:_LONGEST_OUTPUT]


def _fenced(code: str, language: str) -> str:
    fence = "````" if "```" in code else "```"
    return f"{fence}{language}\n{code}\n{fence}" if code.strip() else ""
