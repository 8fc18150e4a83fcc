"""From an error to its answer: one table, and `application/problem+json` as RFC 9457 has it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic_core import to_json
from starlette.responses import Response

from retrieval.errors import (
    InvalidArgumentError,
    RetrievalError,
    UnknownDocumentError,
)
from service.observation import Observation

MEDIA_TYPE = "application/problem+json"


class MalformedBodyError(RetrievalError):
    """The body of a request is not JSON."""


class UnknownRouteError(RetrievalError):
    """No route has the path of a request."""


class MethodNotAllowedError(RetrievalError):
    """The route of a request does not take its method."""

    def __init__(self, method: str, allowed: list[str]) -> None:
        self.allowed = allowed
        super().__init__(f"the method is {method}; {' or '.join(allowed)} is expected")


class BodyTimeoutError(RetrievalError):
    """The body of a request did not come in time."""


class TooLargeError(RetrievalError):
    """The body of a request is over the limit."""


class InvalidRequestError(InvalidArgumentError):
    """A field of a request is outside its bounds."""

    def __init__(self, field: str, sentence: str) -> None:
        self.field = field
        super().__init__(sentence)


class TooManyQueriesError(InvalidRequestError):
    """A batch has too many queries."""


class MissingKeyError(RetrievalError):
    """A request that needs a key has none."""


class WrongKeyError(RetrievalError):
    """The key of a request is not one of those that open its route."""


class QueueFullError(RetrievalError):
    """More work is waiting than the service takes on."""


class DeadlineError(RetrievalError):
    """The deadline of a request passed before its answer was there."""


class ReloadRefusedError(RetrievalError):
    """What is to be loaded cannot be trusted; what was loaded before goes on."""


class NotReadyError(RetrievalError):
    """The service does not answer searches now."""


class InternalError(Exception):
    """Stands in the table for everything that no request should be able to cause."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """What all problems of one kind share; `name` is its anchor on the page /docs."""

    status: int
    name: str
    title: str
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)


# A full queue is worked off in less.
_ASK_AGAIN = {"Retry-After": "1"}


_INVALID_REQUEST = ProblemKind(422, "invalid-request", "The request is outside its bounds")
_INTERNAL_ERROR = ProblemKind(500, "internal-error", "The service failed")

PROBLEMS: dict[type[Exception], ProblemKind] = {
    MalformedBodyError: ProblemKind(400, "malformed-body", "The body is not JSON"),
    MissingKeyError: ProblemKind(
        401, "missing-key", "The request needs a key", {"WWW-Authenticate": "Bearer"}
    ),
    WrongKeyError: ProblemKind(403, "wrong-key", "The key does not open this route"),
    UnknownDocumentError: ProblemKind(404, "unknown-document", "There is no such document"),
    UnknownRouteError: ProblemKind(404, "unknown-route", "There is no such route"),
    MethodNotAllowedError: ProblemKind(
        405, "method-not-allowed", "The route does not take this method"
    ),
    # What else comes of the body would be taken for the next request.
    BodyTimeoutError: ProblemKind(
        408, "body-timeout", "The body did not come in time", {"Connection": "close"}
    ),
    ReloadRefusedError: ProblemKind(
        409, "reload-refused", "What is to be loaded cannot be trusted"
    ),
    TooLargeError: ProblemKind(413, "body-too-large", "The body is too large"),
    TooManyQueriesError: ProblemKind(413, "too-many-queries", "The batch is too large"),
    InvalidArgumentError: _INVALID_REQUEST,
    QueueFullError: ProblemKind(429, "queue-full", "Too much is waiting", _ASK_AGAIN),
    InternalError: _INTERNAL_ERROR,
    NotReadyError: ProblemKind(503, "not-ready", "The service is not ready", _ASK_AGAIN),
    DeadlineError: ProblemKind(504, "deadline-passed", "The deadline passed"),
}
"""Error class to problem; a class that is not here is judged by its nearest base."""


def kind_of(error: Exception) -> ProblemKind:
    """The kind of problem an error is; `internal-error` for all that is no request's fault."""
    return next(
        (PROBLEMS[base] for base in type(error).__mro__ if base in PROBLEMS), _INTERNAL_ERROR
    )


def problem_response(error: Exception, observation: Observation) -> Response:
    """The answer to the request of `observation`, which ended in `error`.

    An internal error's own words stay in the log: they may hold what a client must not see.
    """
    kind = kind_of(error)
    observation.problem = kind.name
    request_id = observation.request_id
    fields: dict[str, object] = {
        "type": f"/docs#{kind.name}",
        "title": kind.title,
        "status": kind.status,
        "detail": str(error),
        "request_id": request_id,
    }
    if kind is _INTERNAL_ERROR:
        fields["detail"] = f"the log says more under the request id {request_id}"
    if isinstance(error, InvalidRequestError) and error.field:
        fields["field"] = error.field
    headers = {**kind.headers}
    if isinstance(error, MethodNotAllowedError):
        headers["Allow"] = ", ".join(error.allowed)
    return Response(to_json(fields), kind.status, headers, MEDIA_TYPE)
