"""What can stand in the way of an evaluation."""

from collections.abc import Iterator
from contextlib import contextmanager

from retrieval.errors import RetrievalError


class EvaluationError(RetrievalError):
    """Queries, qrels and run do not go together, or what evaluates them is not installed."""


class ServiceError(RetrievalError):
    """A service cannot be reached, or refuses a request; the message has the status and detail."""


@contextmanager
def evaluation_extra() -> Iterator[None]:
    """Turn a missing package of the extra `evaluation` into one sentence.

    :raises EvaluationError: When the block imports what is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise EvaluationError(
            f"evaluating needs the package {error.name!r}: "
            "pip install 'swiftlet-retrieval[evaluation]'"
        ) from error
