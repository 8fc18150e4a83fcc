"""Errors of an evaluation."""

from swiftlet.errors import RetrievalError


class EvaluationError(RetrievalError):
    """Queries, qrels and run do not fit together."""
