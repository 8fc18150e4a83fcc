"""Errors of an evaluation."""

from swiftlet.errors import RetrievalError


class EvaluationError(RetrievalError):
    """Queries, qrels and run do not fit together."""


class ServiceError(RetrievalError):
    """A service cannot be reached, or refuses a request. The message has the status and detail."""
