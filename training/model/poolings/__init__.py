"""The poolings by name. This list is the only place that names them."""

from importlib import import_module
from typing import Any

from swiftlet.errors import InvalidArgumentError, shown

POOLINGS: dict[str, str | None] = {
    "cls": None,
    "mean": None,
    "max": None,
    "weightedmean": None,
    "lasttoken": None,
    "first_tokens": "training.model.poolings.first_tokens:FirstTokensPooling",
}
"""The class of each pooling, which is imported when it is used; None where it is a pooling mode of
Sentence Transformers.

A class of ours is a `Module` of Sentence Transformers with the property `name`. It is made from its
`config_keys`: `embedding_dimension` and settings of `TowerSettings`.
"""


def check_pooling(name: str) -> str:
    """The name of a pooling, as it is given.

    :raises InvalidArgumentError: When there is no such pooling.
    """
    if name not in POOLINGS:
        raise InvalidArgumentError(
            f"there is no pooling {shown(name)}; there are {', '.join(POOLINGS)}"
        )
    return name


def make_pooling(name: str, width: int, **settings: Any) -> Any:
    """A new pooling of token embeddings (batch, tokens, width).

    :param settings: Settings of the tower; the pooling takes the settings that it knows.
    :raises InvalidArgumentError: When there is no such pooling, or it needs another setting.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling

    place = POOLINGS[check_pooling(name)]
    if place is None:
        return Pooling(width, name)
    module, class_name = place.split(":")
    pooling = getattr(import_module(module), class_name)
    known = {"embedding_dimension": width, **settings}
    if missing := [key for key in pooling.config_keys if key not in known]:
        raise InvalidArgumentError(
            f"pooling {name!r} needs the setting {missing[0]}, which only training takes"
        )
    return pooling(**{key: known[key] for key in pooling.config_keys})


def own_poolings() -> set[str]:
    """The classes of ours, as Sentence Transformers writes them into `modules.json`."""
    return {place.replace(":", ".") for place in POOLINGS.values() if place is not None}


def own_modules() -> set[str]:
    """All modules of ours that an encoder may have."""
    return own_poolings() | {"training.model.poolings.first_tokens.UnitVectors"}


def vectors_of(model: Any) -> int:
    """How many vectors an encoder gives a text."""
    return getattr(model[1], "vectors", 1) if len(model) > 1 else 1


def unit_length(model: Any) -> Any:
    """A new module that gives the vectors of `model` the length 1."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    if vectors_of(model) == 1:
        return Normalize()
    from training.model.poolings.first_tokens import UnitVectors

    return UnitVectors()


def is_pooling(module: object) -> bool:
    """Whether a module of an encoder is a pooling that is known here."""
    kind = type(module)
    return kind.__name__ == "Pooling" or f"{kind.__module__}.{kind.__qualname__}" in own_poolings()


def pooling_of(model: Any) -> str:
    """The name of a model's pooling: `mean`, `cls`, `first_8_tokens`, `cls+mean` and so on."""
    pooling = model[1]
    if type(pooling).__name__ != "Pooling":
        return str(pooling.name)
    mode = pooling.pooling_mode
    return mode if isinstance(mode, str) else "+".join(mode)
