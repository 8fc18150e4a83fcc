"""ME-BERT: the outputs of the first tokens are so many vectors of a passage (002, section 3).

The pooling is `training.model.poolings.first_tokens`.
"""

from typing import Any, Self

from pydantic import model_validator

from swiftlet.errors import InvalidArgumentError
from training.tables import Count, Table

_POOLING = "first_tokens"


class FirstTokens(Table):
    """How many tokens the pooling keeps, which is set beside this table's settings."""

    first_tokens: Count = 8

    @model_validator(mode="after")
    def _is_pooled(self) -> Self:
        default = FirstTokens.model_fields["first_tokens"].default
        if self.first_tokens != default and getattr(self, "pooling", None) != _POOLING:
            raise ValueError(
                "first_tokens is for several vectors: set pooling to 'first_tokens', too"
            )
        return self


def check_passages(vectors: int, passages: Any) -> None:
    """Check that passages have as many tokens as vectors.

    :param passages: The table [passages].
    :raises InvalidArgumentError: When they have not.
    """
    if vectors > passages.tokens and not passages.truncate:
        raise InvalidArgumentError(
            f"document_encoder.first_tokens is {vectors}, but passages have at most "
            f"{passages.tokens} tokens: lower it or raise passages.tokens"
        )
