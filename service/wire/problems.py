"""From an error to its answer: one table, and `application/problem+json` (RFC 9457)."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

from service.wire.context import RequestContext
from service.wire.rights import BusyKeyError, WrongKeyError
from swiftlet.errors import (
    EncoderError,
    EncoderTimeoutError,
    IndexServerError,
    IndexServerTimeoutError,
    InvalidArgumentError,
    ReadOnlyStorageError,
    RetrievalError,
    StorageError,
    UnknownDocumentError,
    UnknownFieldError,
)

MEDIA_TYPE = "application/problem+json"

_OF_THE_SERVICE = {409, 503, 507}
"""The statuses of problems that a client has not caused; they may name files of the service."""

_FOLDERS = re.compile(r"(?<![\w:/.])/(?:[^/\s'\"]+/)+")

logger = logging.getLogger(__name__)


class MalformedBodyError(RetrievalError):
    """The body of a request is not JSON."""


class BodyTimeoutError(RetrievalError):
    """The body of a request did not arrive in time."""


class TooLargeError(RetrievalError):
    """The body of a request is over the limit."""


class UnknownRouteError(RetrievalError):
    """No route has the path of a request."""


class MethodNotAllowedError(RetrievalError):
    """The route of a request does not take its method."""


class InvalidRequestError(InvalidArgumentError):
    """A field of a request is outside its bounds."""

    def __init__(self, field: str, sentence: str) -> None:
        self.field = field
        super().__init__(sentence)


class TooManyQueriesError(InvalidRequestError):
    """A batch has too many queries."""


class MissingKeyError(RetrievalError):
    """A request that needs a key has none."""


class QueueFullError(RetrievalError):
    """More work is waiting than the service accepts."""


class DeadlineError(RetrievalError):
    """The deadline of a request passed before its answer was there."""


class ReloadRefusedError(RetrievalError):
    """The artefacts to be loaded are not valid; those loaded before stay in use."""


class WriteRefusedError(RetrievalError):
    """The index cannot be written by this service."""


class NotReadyError(RetrievalError):
    """The service does not answer searches now."""


class UnknownIndexError(RetrievalError):
    """The folder of the indexes has none of a name."""


class UnknownFileError(RetrievalError):
    """The folder of the originals has no file of a document."""


class InternalError(Exception):
    """The entry for every other error: a fault of the service."""


class Problem(BaseModel):
    """An error, as RFC 9457 defines it."""

    type: str = Field(description="The kind of the problem, as a reference into /docs.")
    title: str
    status: int
    detail: str = Field(description="One sentence that names the culprit and the bound.")
    request_id: str
    field: str = Field(default="", description="The field at fault, where there is one.")


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """The parts that all problems of one kind share; `name` is its anchor on the page /docs."""

    status: int
    name: str
    title: str
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)


_RETRY = {"Retry-After": "1"}  # a full queue is empty again sooner

_WRITE_REFUSED = ProblemKind(409, "write-refused", "The index cannot be written")

PROBLEMS: dict[type[Exception], ProblemKind] = {
    MalformedBodyError: ProblemKind(400, "malformed-body", "The body is not JSON"),
    MissingKeyError: ProblemKind(
        401, "missing-key", "The request needs a key", {"WWW-Authenticate": "Bearer"}
    ),
    WrongKeyError: ProblemKind(403, "wrong-key", "The key does not open this route"),
    UnknownDocumentError: ProblemKind(404, "unknown-document", "There is no such document"),
    UnknownIndexError: ProblemKind(404, "unknown-index", "There is no such index"),
    UnknownFileError: ProblemKind(404, "unknown-file", "There is no such file"),
    UnknownRouteError: ProblemKind(404, "unknown-route", "There is no such route"),
    MethodNotAllowedError: ProblemKind(
        405, "method-not-allowed", "The route does not take this method"
    ),
    # The rest of the body would be read as the next request.
    BodyTimeoutError: ProblemKind(
        408, "body-timeout", "The body did not come in time", {"Connection": "close"}
    ),
    ReloadRefusedError: ProblemKind(
        409, "reload-refused", "The new index or encoder cannot be trusted"
    ),
    WriteRefusedError: _WRITE_REFUSED,
    ReadOnlyStorageError: _WRITE_REFUSED,
    TooLargeError: ProblemKind(413, "body-too-large", "The body is too large"),
    TooManyQueriesError: ProblemKind(413, "too-many-queries", "The batch is too large"),
    InvalidArgumentError: ProblemKind(422, "invalid-request", "The request is outside its bounds"),
    BusyKeyError: ProblemKind(429, "busy-key", "The key has used up its limit", _RETRY),
    QueueFullError: ProblemKind(429, "queue-full", "Too much is waiting", _RETRY),
    InternalError: ProblemKind(500, "internal-error", "The service failed"),
    NotReadyError: ProblemKind(503, "not-ready", "The service is not ready", _RETRY),
    IndexServerError: ProblemKind(
        503, "index-server-away", "The server that holds the index does not answer", _RETRY
    ),
    IndexServerTimeoutError: ProblemKind(
        504, "index-server-timeout", "The server that holds the index is too slow"
    ),
    EncoderError: ProblemKind(503, "encoder-away", "The encoder gives no embeddings", _RETRY),
    EncoderTimeoutError: ProblemKind(504, "encoder-timeout", "The encoder is too slow"),
    DeadlineError: ProblemKind(504, "deadline-passed", "The deadline passed"),
    StorageError: ProblemKind(507, "storage-full", "The storage refuses a write"),
}
"""Error class to problem; a class that is not here has the problem of its nearest base."""


def kind_of(error: Exception) -> ProblemKind:
    """The kind of problem that an error is; `internal-error` if no request may cause it.

    An `HTTPException` of a route has the kind of its status.
    """
    for base in type(error).__mro__:
        if base in PROBLEMS:
            return PROBLEMS[base]
    if isinstance(error, HTTPException):
        status = HTTPStatus(error.status_code)
        name = status.phrase.lower().replace(" ", "-")
        return ProblemKind(status, name, status.phrase, error.headers or {})
    return PROBLEMS[InternalError]


def problem_response(error: Exception, context: RequestContext) -> Response:
    """The answer to the request of `context`, which ended in `error`.

    The message of an internal error is only in the log, and so are the folders of the service's
    files: a client must not see them.
    """
    kind = kind_of(error)
    context.problem = kind.name
    detail = error.detail if isinstance(error, HTTPException) else str(error)
    if kind is PROBLEMS[InternalError]:
        detail = f"the log has the cause under the request id {context.request_id}"
    if isinstance(error, UnknownFieldError) and context.has_filter:
        logger.warning("request %s was refused: %s", context.request_id, detail)
        detail = context.without_fields(error.path)
    if kind.status in _OF_THE_SERVICE and (bare := _FOLDERS.sub("", detail)) != detail:
        logger.warning("request %s was refused: %s", context.request_id, detail)
        detail = bare
    problem = {
        "type": f"{context.prefix}/docs#{kind.name}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "request_id": context.request_id,
    }
    if isinstance(error, InvalidArgumentError) and error.field:
        problem["field"] = error.field
    headers = {**kind.headers}
    if isinstance(error, BusyKeyError):
        headers["Retry-After"] = f"{error.seconds}"
    return Response(to_json(problem), kind.status, headers, MEDIA_TYPE)
