"""What stands in the place of an encoder where an index was made of vectors alone."""

from collections.abc import Sequence
from typing import NoReturn

from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import Manifest

NO_ENCODER = (
    "the index was made of vectors without an encoder, so a text has no embedding: give the "
    "embedding, too, search by its words (mode 'lexical'), name an encoder of these vectors with "
    "--encoder (in the service by SWIFTLET_ENCODER), or make one of its texts by swiftlet distill "
    "--index INDEX"
)

NO_MODEL = (
    "the index was made of vectors without an encoder, so this service has no model of embeddings: "
    "name an encoder of these vectors with --encoder (in the service by SWIFTLET_ENCODER), or make "
    "one by swiftlet distill --index INDEX"
)


class MissingEncoder:
    """Refuses every text."""

    max_tokens = 0

    def __init__(self, index: Manifest) -> None:
        """Stand for the encoder of this index."""
        self.dim = self.width = index.dim
        self.embedding_space = index.embedding_space
        self.manifest = Manifest("encoder", index.dim, index.embedding_space, {}, index.created_by)

    def tokenise(self, _: str) -> NoReturn:
        """Refuse a text.

        :raises InvalidArgumentError: Always.
        """
        raise InvalidArgumentError(NO_ENCODER)

    def embed(self, _: Sequence[int]) -> NoReturn:
        """Refuse the tokens of a text."""
        raise InvalidArgumentError(NO_ENCODER)

    def encode(self, _: Sequence[str]) -> NoReturn:
        """Refuse texts."""
        raise InvalidArgumentError(NO_ENCODER)
