import pickle
from pathlib import Path

import pytest

from service.wire.problems import InvalidRequestError
from swiftlet.errors import CollectionError, RetrievalError, UnknownDocumentError
from swiftlet.search.request import RequestConflictError


@pytest.mark.parametrize(
    "error",
    [
        RetrievalError("a sentence"),
        CollectionError(Path("corpus.jsonl"), "has no text", 3),
        UnknownDocumentError("tea"),
        RequestConflictError("weight", "a weight is for hybrid search"),
        InvalidRequestError("top_k", "top_k is 0; a whole number from 1 is expected"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_from_another_process_as_it_was(error):
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), f"{found}", vars(found)) == (type(error), f"{error}", vars(error))
