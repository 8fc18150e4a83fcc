"""What can stand in the way of an evaluation."""

from retrieval.errors import RetrievalError


class EvaluationError(RetrievalError):
    """Queries, qrels and run do not go together."""


class ServiceError(RetrievalError):
    """A service cannot be reached, or refuses a request; the message has the status and detail."""
