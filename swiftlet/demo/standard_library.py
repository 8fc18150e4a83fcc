"""The documentation of the Python standard library, as the demo's corpus.

A document is a module; its sections are the docstrings of the module and of its functions, classes
and methods. They are read from source; a module written in C has no source and is imported.
"""

import ast
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from swiftlet.demo.docstrings import (
    Definition,
    definitions_in_loaded,
    definitions_in_source,
    documentation,
    first_comment,
    imported_names,
    is_public,
)
from swiftlet.errors import CollectionError
from swiftlet.types import Document, Section

# Tests, programs, one module for each character encoding, and modules that Python 3.12 removed.
_LEFT_OUT = frozenset(
    {"test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "encodings", "pydoc_data"}
    | {"distutils", "audioop", "nis", "ossaudiodev", "spwd"}
)
# Importing it changes the terminal.
_NOT_IMPORTED = frozenset({"readline"})
# Public by their names, but known to users as os and os.path.
_INTERNAL = frozenset({"posix", "nt", "posixpath", "ntpath", "genericpath", "nturl2path"}) | {
    f"multiprocessing.popen_{way}" for way in ("fork", "forkserver", "spawn_posix", "spawn_win32")
}
FACETS = ("package", "language")
"""The fields of the metadata to choose by."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|\n\s*\n")
_TITLE_WIDTH = 120


def read_standard_library(directory: Path | None = None) -> Iterator[Document]:
    """The public modules of the standard library that have documentation, by name.

    :param directory: Where the library's source is; None means the running interpreter's.
    :raises CollectionError: When there is no source, as in an interpreter frozen into an archive.
    """
    if directory is None:
        # Not from sysconfig, which would import a module of the build's settings.
        directory = Path(getattr(os, "__file__", sys.executable)).parent
    library = _Library.find(directory)
    for name in library.public_modules():
        if (document := library.document(name)) is not None:
            yield document


@dataclass(frozen=True, slots=True)
class _Library:
    """The modules by name, internal ones too: modules with source, and modules of C."""

    directory: Path
    sources: dict[str, Path]
    compiled: dict[str, ModuleType]
    exported: dict[str, frozenset[str]]
    """What packages export of their modules, by module."""

    @classmethod
    def find(cls, directory: Path) -> "_Library":
        sources = {name: path for path in _files(directory) if (name := _name(path, directory))}
        if not sources:
            raise CollectionError(directory, "the source of Python's standard library is not there")
        if os.path.__name__ in sources:
            sources["os.path"] = sources[os.path.__name__]
        without_source = sys.stdlib_module_names - {*sources, *_LEFT_OUT, *_NOT_IMPORTED}
        compiled = {
            name: module
            for name in sorted(without_source)
            if (module := _import_compiled(name)) is not None
        }
        exported: dict[str, frozenset[str]] = {}
        for package, path in sources.items():
            if path.stem == "__init__" and (tree := _parse(path)) is not None:
                for inner, names in imported_names(tree, package, is_package=True):
                    if names is not None and inner.startswith(f"{package}."):
                        exported[inner] = exported.get(inner, frozenset()) | names
        return cls(directory, sources, compiled, exported)

    def public_modules(self) -> list[str]:
        return sorted(name for name in {*self.sources, *self.compiled} if not _is_internal(name))

    def document(self, name: str) -> Document | None:
        """The documentation of one module; None if it has none or cannot be parsed."""
        if name in self.sources:
            tree = _parse(self.sources[name])
            if tree is None:
                return None
            own = [*definitions_in_source(tree)]
            moved = self.exported.get(name, frozenset())
            kept = [each for each in own if each.name.partition(".")[0] not in moved]
            if own and not kept:
                return None
            definitions = [*kept, *self._taken_over(name, tree)]
            summary = documentation(tree) or self._summary_in_python(name)
            if definitions and not summary:
                summary = first_comment(self.sources[name].read_text("utf-8", "replace"))
            source = self.sources[name].relative_to(self.directory).as_posix()
        else:
            module = self.compiled[name]
            summary = module.__doc__ or ""
            definitions = [*definitions_in_loaded(module)]
            source = "C"
        # If a name is defined twice, the definitions are in Python and C, or for two platforms.
        unique: dict[str, Definition] = {}
        for definition in definitions:
            unique.setdefault(definition.name, definition)
        texts = [summary] if summary else []
        texts += [_section(name, definition) for definition in unique.values()]
        if not texts:
            return None
        metadata = {
            "source": source,
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "language": "C" if source == "C" else "Python",
        }
        package = name.partition(".")[0]
        if any(other.startswith(f"{package}.") for other in self.sources):
            metadata["package"] = package
        return _document(name, summary, texts, metadata)

    def _summary_in_python(self, name: str) -> str:
        """The docstring of _pydatetime for datetime, which only imports one of two modules."""
        path = self.sources.get(f"_py{name}")
        tree = None if path is None else _parse(path)
        return "" if tree is None else documentation(tree)

    def _taken_over(self, name: str, tree: ast.Module) -> Iterator[Definition]:
        """Definitions that a module takes over from an internal one: os.listdir is in posix.

        A package takes over what it exports of its modules: json.JSONDecoder is in json.decoder.
        """
        imported = [*imported_names(tree, name, is_package=self.sources[name].stem == "__init__")]
        for module, names in [*imported, (f"_py{name}", None)]:
            exported = names is not None and module.startswith(f"{name}.")
            if not exported and not _is_internal(module):
                continue
            if module in self.compiled:
                yield from definitions_in_loaded(self.compiled[module], names)
            elif module in self.sources and (inner := _parse(self.sources[module])) is not None:
                for definition in definitions_in_source(inner):
                    if names is None or definition.name.partition(".")[0] in names:
                        yield definition


def _files(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()) if directory.is_dir() else []:
        if path.is_dir():
            if path.name.isidentifier() and path.name not in _LEFT_OUT:
                yield from _files(path)
        elif path.suffix == ".py" and path.stem.isidentifier() and path.stem not in _LEFT_OUT:
            yield path


def _name(path: Path, directory: Path) -> str | None:
    parts = path.relative_to(directory).with_suffix("").parts
    # Distributions put files of their own beside the library's.
    if parts[0] not in sys.stdlib_module_names:
        return None
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_internal(name: str) -> bool:
    return name in _INTERNAL or not all(map(is_public, name.split(".")))


def _import_compiled(name: str) -> ModuleType | None:
    """The module, if it is written in C and this interpreter was built with it."""
    spec = find_spec(name)
    origin = None if spec is None else spec.origin
    if origin != "built-in" and not str(origin).endswith(tuple(EXTENSION_SUFFIXES)):
        return None
    try:
        return import_module(name)
    except ImportError:
        return None


def _parse(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _first_sentence(name: str, summary: str) -> str:
    """The first sentence that says more than the module's name, and without this name before it."""
    before = re.compile(rf"{re.escape(name)}(\.py)?( module)?(\s+-+\s+|\W*$)", re.IGNORECASE)
    sentences = (
        each[found.end() :] if (found := before.match(each)) else each
        for each in _SENTENCE_END.split(summary.strip())
    )
    return next(filter(None, sentences), "")


def _section(module: str, definition: Definition) -> str:
    name = definition.name if module == "builtins" else f"{module}.{definition.name}"
    call = "" if definition.signature is None else f"({definition.signature})"
    return f"{name}{call}\n{definition.documentation}"


def _document(name: str, summary: str, texts: list[str], metadata: dict[str, str]) -> Document:
    sections = []
    start = 0
    for text in texts:
        sections.append(Section(start, start + len(text)))
        start += len(text) + len("\n\n")
    title = textwrap.shorten(_first_sentence(name, summary), _TITLE_WIDTH, placeholder=" …")
    # A docstring may have an escape for half of a surrogate pair, which cannot be stored.
    whole = "\n\n".join(texts).encode(errors="replace").decode()
    return Document(
        document_id=name,
        text=whole,
        title=f"{name} — {title}".encode(errors="replace").decode() if title else name,
        metadata=metadata,
        sections=tuple(sections),
    )
