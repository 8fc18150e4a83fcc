"""Every error a user can cause, each with one sentence that names the bad value and its bound.

The command line prints the sentence and exits with status 2; the service maps each class to one
HTTP status. Any other exception is a fault of Swiftlet.
"""

from pathlib import Path
from reprlib import Repr
from typing import Any


class _Short(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 80


class _ShortJson(_Short):
    def repr_NoneType(self, _value: None, _level: int) -> str:  # noqa: N802 - called by this name
        return "null"

    def repr_bool(self, value: bool, _level: int) -> str:
        return "true" if value else "false"


_SHORT, _SHORT_JSON = _Short(), _ShortJson()


def shown(value: object) -> str:
    """The value as quoted in an error: on one line, and shortened if it is long."""
    return _SHORT.repr(value)


def shown_json(value: object) -> str:
    """The value as quoted in an error on JSON: null, true and false are written as there."""
    return _SHORT_JSON.repr(value)


class RetrievalError(Exception):
    """Base of all errors with which Swiftlet refuses bad input."""

    def __reduce__(self) -> tuple[Any, ...]:
        """How it comes from another process, whatever its constructor takes."""
        return _made_again, (type(self), self.args, self.__dict__)


def _made_again(
    kind: type[RetrievalError], args: tuple[Any, ...], fields: dict[str, Any]
) -> RetrievalError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class InvalidArgumentError(RetrievalError, ValueError):
    """An argument is outside its bounds; the message names the value and the bounds."""

    field = ""
    """The name of the argument, where the service has to know it."""


class QueryError(InvalidArgumentError, ValueError):
    """A query cannot be searched: it is empty, blank, too long or not valid text."""


class FilterError(InvalidArgumentError, ValueError):
    """A filter is malformed, or names a field that no document has."""

    field = "filter"


class UnknownFieldError(FilterError):
    """A request names a field, or a kind of value, that no document has; names all."""

    def __init__(self, path: str, sentence: str, field: str = "filter") -> None:
        self.path, self.field = path, field
        super().__init__(sentence)


class GroupingError(FilterError):
    """Documents cannot be grouped by a field: none has it, or one has several values of it."""

    field = "group_by"


class SortError(FilterError):
    """Documents cannot be sorted by a field: its values are of several kinds."""

    field = "sort"


class UnknownDocumentError(RetrievalError, KeyError):
    """No document of the index has the given id."""

    def __init__(self, document_id: str) -> None:
        super().__init__(f"no document has the id {shown(document_id)}")

    def __str__(self) -> str:
        return str(self.args[0])


class CollectionError(RetrievalError):
    """A corpus, queries, qrels or run is bad; names its file and, where known, the line.

    A text as the `path` stands for a corpus in memory; `line_number` is then its row.
    """

    def __init__(self, path: Path | str, problem: str, line_number: int | None = None) -> None:
        self.path = path
        self.problem = problem
        self.line_number = line_number
        place = f"{path}"
        if line_number is not None:
            place += f", line {line_number}" if isinstance(path, Path) else f": row {line_number:,}"
        super().__init__(f"{place}: {problem}")


class EvaluationError(RetrievalError):
    """Queries, qrels and run do not fit together."""


class ArtefactError(RetrievalError):
    """An artefact directory cannot be read, written or trusted."""


class ManifestError(ArtefactError):
    """A manifest is missing, malformed, of another kind or of a newer format version."""


class CorruptArtefactError(ArtefactError):
    """A file of an artefact is missing, or its hash differs from that in the manifest."""


class CorruptIndexError(CorruptArtefactError):
    """A file of an index cannot be read in its format."""


class EmbeddingSpaceMismatch(ArtefactError):  # noqa: N818 - the name states the fact
    """A query encoder and an index come from different embedding spaces."""


class IndexServerError(RetrievalError):
    """The server that holds an index does not answer, or not as expected."""


class IndexServerAwayError(IndexServerError):
    """The server that holds an index cannot be reached."""


class IndexServerTimeoutError(IndexServerError):
    """The server that holds an index has not answered in time."""


class ChangedMeanwhileError(IndexServerError):
    """A passage that a search found was gone when its text was read."""


class EncoderError(RetrievalError):
    """An encoder that is a function or on a server fails, or gives no embeddings."""


class EncoderTimeoutError(EncoderError):
    """An encoder that is a function or on a server has not answered in time."""


class ServiceError(RetrievalError):
    """A service cannot be reached, or refuses a request. The message has the status and detail."""


class MissingExtraError(RetrievalError):
    """A package that only some commands need is not installed; names the extra that has it."""


class HubError(RetrievalError):
    """The Hugging Face hub refuses something, or cannot be reached."""


class StorageError(RetrievalError):
    """The file system refuses a write: it is full, read-only or not permitted."""


class UnfinishedWriteError(StorageError):
    """The file system refuses the end of a write: the message says what may be written."""


class ReadOnlyStorageError(StorageError):
    """The file system is read-only, or does not permit a write to this user."""
