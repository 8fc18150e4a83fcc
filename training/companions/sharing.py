"""What the language models of both encoders have in common (003, section 2)."""

from collections.abc import Iterator
from typing import Any, Literal

from swiftlet.errors import InvalidArgumentError
from training.model.towers import Tower
from training.tables import Table

_TOKENS, _FROZEN, _ALL = "token_embeddings", "frozen_token_embeddings", "all"


class Sharing(Table):
    """What both encoders share: nothing, token embeddings (trained or frozen), or everything."""

    sharing: Literal["none", "token_embeddings", "frozen_token_embeddings", "all"] = "none"

    @property
    def is_one(self) -> bool:
        """Whether one tower is both."""
        return self.sharing == _ALL


def share(settings: Sharing, query_tower: Tower, document_tower: Tower) -> None:
    """Let two towers share their token embeddings, or freeze these.

    :raises InvalidArgumentError: When they cannot be shared.
    """
    if settings.sharing == _TOKENS:
        share_token_embeddings(document_tower, query_tower)
    if settings.sharing == _FROZEN:
        for tower in (query_tower, document_tower):
            tower.token_embeddings.weight.requires_grad_(False)


def share_token_embeddings(tower: Tower, other: Tower) -> None:
    """Give `other` the token embeddings of a tower.

    :raises InvalidArgumentError: When their vocabularies or widths differ.
    """
    own, others = tower.token_embeddings, other.token_embeddings
    vocabularies = [each.encoder.tokenizer.get_vocab() for each in (other, tower)]
    differing = ""
    if own.embedding_dim != others.embedding_dim:
        differing = f"{others.embedding_dim} and {own.embedding_dim} numbers a token"
    elif len(own.weight) != len(others.weight):
        differing = f"{len(others.weight):,} and {len(own.weight):,} tokens"
    elif vocabularies[0] != vocabularies[1]:
        differing = "other tokens of the same number"
    if differing:
        raise InvalidArgumentError(
            f"the encoders cannot share token embeddings, since they have {differing}: set "
            "dual_encoder.sharing to 'none'"
        )
    other.encoder[0].auto_model.set_input_embeddings(own)


def notes_of(recipe: Any) -> Iterator[str]:
    """What the user should know of a recipe."""
    models = recipe.query_encoder.model, recipe.document_encoder.model
    if recipe.dual_encoder.sharing == _TOKENS and models[0] != models[1]:
        yield (
            f"the token embeddings of {models[0]} are replaced by the token embeddings of "
            f"{models[1]}: dual_encoder.sharing is 'token_embeddings'"
        )


def check(recipe: Any) -> None:
    """Check that the towers of a recipe can share what they should.

    :raises ValueError: When they cannot.
    """
    if recipe.dual_encoder.sharing == _TOKENS and recipe.recipe == "adore":
        raise ValueError(
            "dual_encoder.sharing is 'token_embeddings', but recipe 'adore' keeps documents as "
            "they are: set it to 'none' or 'frozen_token_embeddings'"
        )
    if not recipe.dual_encoder.is_one:
        return
    tables = (table.model_dump() for table in (recipe.query_encoder, recipe.document_encoder))
    of_queries, of_documents = tables
    differing = [name for name in of_queries if of_queries[name] != of_documents[name]]
    if differing:
        raise ValueError(
            f"dual_encoder.sharing is 'all', but query_encoder.{differing[0]} and "
            f"document_encoder.{differing[0]} differ: make them equal, or share less"
        )
    if recipe.recipe != "contrastive":
        raise ValueError(
            f"dual_encoder.sharing is 'all', but recipe '{recipe.recipe}' trains the encoders "
            "apart: choose recipe 'contrastive', or share less"
        )
    if recipe.dual_encoder.projection == "separate":
        raise ValueError(
            "dual_encoder.sharing is 'all', but its projection is 'separate': choose 'shared' "
            "or 'none', or share less"
        )
