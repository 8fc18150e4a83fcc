"""Errors of training."""

from swiftlet.errors import RetrievalError


class RecipeError(RetrievalError):
    """A recipe cannot be run. The message lists all errors in it."""


class TrainingDataError(RetrievalError):
    """Queries, qrels and corpora do not form a training set."""


class TrainingStoppedError(RetrievalError):
    """A run cannot continue. The message names the step and the last good checkpoint."""


class CollapsedError(TrainingStoppedError):
    """The embeddings of all queries or documents have become nearly the same (001, section 3.2)."""


class NotFiniteError(TrainingStoppedError):
    """A quantity is not a finite number; the message is the name of the quantity."""
