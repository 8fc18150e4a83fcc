"""The demo's corpus: the standard library of the interpreter that runs the tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from swiftlet.demo.standard_library import read_standard_library
from swiftlet.errors import CollectionError
from swiftlet.text import has_lone_surrogate
from swiftlet.types import Document

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def library() -> dict[str, Document]:
    return {document.document_id: document for document in read_standard_library()}


def sections(document: Document) -> list[str]:
    return [document.text[start:end] for start, end, _ in document.sections]


def test_a_module_is_a_document_with_a_section_for_each_definition(
    library: dict[str, Document],
) -> None:
    json = library["json"]
    assert json.title.startswith("json — JSON (JavaScript Object Notation)")
    assert json.metadata == {
        "source": "json/__init__.py", "python": VERSION, "language": "Python", "package": "json",
    }  # fmt: skip
    assert library["os"].metadata["package"] == library["os.path"].metadata["package"] == "os"
    assert "package" not in library["bisect"].metadata
    assert library["itertools"].metadata["language"] == "C"
    texts = sections(json)
    assert texts[0].startswith("JSON (JavaScript Object Notation)")
    signature, documentation = next(text for text in texts if text.startswith("json.dumps(")).split(
        "\n", 1
    )
    assert signature.startswith("json.dumps(obj, *, skipkeys=False, ")
    assert documentation.startswith("Serialize ``obj`` to a JSON formatted ``str``.")


@pytest.mark.parametrize(
    ("module", "start"),
    [
        ("builtins", "str.split(sep=None, maxsplit=-1)\n"),
        ("builtins", "len(obj, /)\nReturn the number of items"),
        ("datetime", "datetime.datetime.strptime("),
        ("collections", "collections.deque.popleft"),
        ("json", "json.JSONDecoder.decode(s"),
        ("unittest", "unittest.TestCase.assertEqual("),
        ("os", "os.listdir(path=None)\n"),
        ("os", "os.makedirs(name, mode="),
        ("os.path", "os.path.join("),
        ("pathlib", "pathlib.Path.glob("),
        ("time", "time.sleep"),
    ],
)
def test_well_known_modules_are_documents_under_their_public_names(
    library: dict[str, Document], module: str, start: str
) -> None:
    assert any(text.startswith(start) for text in sections(library[module]))


def test_what_a_package_exports_is_in_its_document_alone(library: dict[str, Document]) -> None:
    assert "unittest.case" not in library
    assert sections(library["json.decoder"])[0] == "Implementation of JSONDecoder"
    assert "json.decoder.JSONDecoder" not in library["json.decoder"].text


@pytest.mark.parametrize(
    ("module", "title"),
    [
        ("ast", "ast — The `ast` module helps Python applications to process trees of the Python "),
        ("csv", "csv — read/write/investigate CSV files"),
        ("hashlib", "hashlib — A common interface to many hash functions."),
        ("logging", "logging — Logging package for Python."),
        ("multiprocessing.pool", "multiprocessing.pool — Module providing the `Pool` class for "),
        ("enum", "enum"),
    ],
)
def test_a_title_is_the_name_and_the_first_sentence_that_says_more(
    library: dict[str, Document], module: str, title: str
) -> None:
    assert library[module].title.startswith(title)


def test_sections_lie_in_order_and_everything_can_be_stored(library: dict[str, Document]) -> None:
    assert len(library) > 200
    for document in library.values():
        ends = [0, *(end for _, end, _ in document.sections)]
        assert all(start >= end for (start, *_), end in zip(document.sections, ends, strict=False))
        assert all(text.strip() for text in sections(document))
        assert ends[-1] == len(document.text)
        assert not has_lone_surrogate(document.text + document.title)


def test_tests_and_private_modules_are_left_out(library: dict[str, Document]) -> None:
    parts = {part for name in library for part in name.split(".")}
    assert not parts & {"test", "tests", "idlelib", "lib2to3", "ensurepip", "posix", "distutils"}
    assert not [part for part in parts if part.startswith("_")]


def test_source_is_parsed_as_it_is_written(tmp_path: Path) -> None:
    source = '''
"""Counts things. And more.

Further."""
from _heapq import *
from itertools import repeat
if True:
    def count(first, /, *rest: int, step=1):
        """Count\\n        upwards."""
        def inner(): "hidden"
else:
    def count(): "the other platform's"
def _private(): "hidden"
def undocumented(): pass
class Counter:
    def __init__(self, start=(1, 2)): "hidden"
    async def step(self): "Next \\ud800."
    @staticmethod
    def make(value): "Make one."
    @property
    def total(self): "All of them."
'''
    (tmp_path / "queue.py").write_text(source)
    (tmp_path / "_heapq.py").write_text('def push(item): "Push."\ndef _pop(): "hidden"')
    (tmp_path / "heapq.py").write_text("def broken(:")
    (tmp_path / "cmd.py").write_bytes(b"'''\xff'''")
    (tmp_path / "abc.py").write_text("nothing = 1")
    (tmp_path / "sitecustomize.py").write_text("'''Of the distribution.'''")
    documents = {
        document.document_id: document
        for document in read_standard_library(tmp_path)
        if document.metadata["source"] != "C"
    }
    assert list(documents) == ["queue"]
    assert documents["queue"].title == "queue — Counts things."
    assert sections(documents["queue"]) == [
        "Counts things. And more.\n\nFurther.",
        "queue.count(first, /, *rest: int, step=1)\nCount\nupwards.",
        "queue.Counter.step()\nNext ?.",
        "queue.Counter.make(value)\nMake one.",
        "queue.Counter.total\nAll of them.",
        "queue.push(item)\nPush.",
    ]


def test_an_interpreter_without_source_is_refused(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "python311.zip"):
        with pytest.raises(CollectionError, match="the source of Python's standard library is not"):
            list(read_standard_library(directory))


PROGRAM = """
import sys
from hashlib import sha256
from swiftlet.demo.standard_library import read_standard_library
print(sha256(repr(list(read_standard_library())).encode()).hexdigest())
print(sorted({"antigravity", "readline", "this", "tkinter"} & set(sys.modules)))
"""


@pytest.mark.check
def test_it_does_not_depend_on_what_is_imported_and_nothing_that_shows_is_imported_for_it() -> None:
    found = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", imports + PROGRAM],
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for imports in ("", "import sys, curses, swiftlet.cli.demo; sys.excepthook = print")
    ]
    assert found[0] == found[1]
    assert found[0][1] == "[]"
