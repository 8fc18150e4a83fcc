"""Collections by the name that ir_datasets gives them: `irds:beir/scifact/test`.

Such a name may take the place of a path. ir_datasets downloads a dataset when it is first used.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from swiftlet.corpora.identifiers import check_id
from swiftlet.corpora.lines import Record, SkippedLines, parse_records
from swiftlet.corpora.records import document_from_row, query
from swiftlet.errors import CollectionError
from swiftlet.extras import extra
from swiftlet.types import Document, Query

Entity = Literal["docs", "queries", "qrels"]

_PREFIX = "irds:"
_ENTITIES: dict[Entity, str] = {"docs": "documents", "queries": "queries", "qrels": "qrels"}
_TITLE_FIELDS = ("title", "page_title", "document_title", "headline")
_TEXT_FIELDS = ("text", "query", "title", "description")
_LONGEST_REASON = 200


def is_dataset(path: Path) -> bool:
    """Whether `path` is the name of a dataset."""
    return str(path).startswith(_PREFIX)


def parse_dataset(
    path: Path,
    entity: Entity,
    parse: Callable[[Any], Record],
    skipped: SkippedLines | None = None,
) -> Iterator[tuple[int, Record]]:
    """The result of `parse` for each record of a dataset, with the record's number from 1.

    Only the current record is kept in memory here.

    :raises MissingExtraError: When ir_datasets is not installed.
    :raises CollectionError: As `load_dataset`; when the dataset cannot be downloaded or read; and,
        unless there is `skipped`, when `parse` raises `LineError` for a record.
    """
    return parse_records(path, enumerate(_records(path, entity), 1), parse, skipped, "record")


def _records(path: Path, entity: Entity) -> Iterator[Any]:
    dataset = load_dataset(path, entity)
    with _library_errors(path):
        records = iter(getattr(dataset, f"{entity}_iter")())
    while True:
        with _library_errors(path):
            record = next(records, None)
        if record is None:
            return
        yield record


def document_from_record(record: Any) -> Document:
    """A document from any of ir_datasets' types.

    The text is the type's default text without the title in front of it, or all its strings if the
    type has no default text; a url becomes metadata.

    :raises LineError: When it has no valid id, or neither text nor title.
    """
    title_field = next((name for name in _TITLE_FIELDS if hasattr(record, name)), "")
    title = _string(record, title_field).strip()
    if hasattr(record, "default_text"):
        text = record.default_text().strip().removeprefix(title).strip()
    else:
        others = (name for name in record._fields if name not in ("doc_id", "url", title_field))
        text = " ".join(filter(None, (_string(record, name) for name in others))).strip()
    url = _string(record, "url")
    metadata = {"url": url} if url else {}
    row = {"_id": record.doc_id, "title": title, "text": text, "metadata": metadata}
    return document_from_row(row)


def query_from_record(record: Any) -> Query:
    """A query from any of ir_datasets' types; its text is the type's default text.

    :raises LineError: When it has no valid id or no text.
    """
    query_id = check_id(record.query_id, "query id")
    if hasattr(record, "default_text"):
        return query(query_id, record.default_text())
    texts = filter(None, (_string(record, name) for name in _TEXT_FIELDS))
    return query(query_id, next(texts, ""))


def load_dataset(path: Path, entity: Entity) -> Any:
    """The dataset of ir_datasets; nothing is downloaded.

    :raises MissingExtraError: When ir_datasets is not installed.
    :raises CollectionError: When there is no such dataset, or it lacks this entity.
    """
    with extra("irds"):
        import ir_datasets
    name = str(path).removeprefix(_PREFIX)
    try:
        with _library_errors(path):
            dataset = ir_datasets.load(name)
    except CollectionError as error:
        if not isinstance(error.__cause__, KeyError):
            raise
        similar = get_close_matches(name, list(ir_datasets.registry), 1)
        meant = f"; did you mean {_PREFIX}{similar[0]}?" if similar else ""
        raise CollectionError(path, f"ir_datasets has no such dataset{meant}") from error
    if not dataset.has(entity):
        there = [plural for kind, plural in _ENTITIES.items() if dataset.has(kind)]
        raise CollectionError(
            path, f"the dataset has no {_ENTITIES[entity]}; it has {' and '.join(there) or 'none'}"
        )
    return dataset


@contextmanager
def _library_errors(path: Path) -> Iterator[None]:
    """Turn any error of ir_datasets and its many format readers into one sentence."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, FileNotFoundError):
            problem = f"it is not downloaded: there is no {error.filename or reason}"
        elif url := getattr(getattr(error, "request", None), "url", None):
            problem = f"it is not downloaded, and {url} cannot be had: {type(error).__name__}"
        else:
            problem = f"ir_datasets cannot read it: {reason[:_LONGEST_REASON]}"
        raise CollectionError(path, problem) from error


def _string(record: Any, name: str) -> str:
    value = getattr(record, name, None) if name else None
    return value if isinstance(value, str) else ""
