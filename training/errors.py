"""What can stand in the way of a training run."""

from retrieval.errors import RetrievalError


class ModelError(RetrievalError):
    """A torch model cannot be loaded, or not be used as what it is wanted for."""


class RecipeError(RetrievalError):
    """A recipe cannot be run; the message has every fault that was found."""


class TrainingDataError(RetrievalError):
    """Queries, qrels and corpora do not make a training set."""


class TrainingStoppedError(RetrievalError):
    """A run cannot go on; the message names the step, and where the last good checkpoint is."""


class CollapsedError(TrainingStoppedError):
    """Query and document embeddings have become the same everywhere (000, section 3.2)."""
