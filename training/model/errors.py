"""Errors of model loading."""

from swiftlet.errors import RetrievalError


class ModelError(RetrievalError):
    """A torch model cannot be loaded, or cannot be used for the purpose."""
