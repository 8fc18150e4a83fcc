"""How an index is built: one frozen value, which every way to build derives from."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from swiftlet.arguments import Option, check_values, options_of
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.index.lexical import AUTO

if TYPE_CHECKING:  # NumPy is not loaded for the help of a command
    from swiftlet.encoders.encoder import ModelEncoder, Precision
    from swiftlet.index.columns.boosts import BoostObjects
    from swiftlet.index.documents.passages import PassageSplitter


@dataclass(frozen=True, slots=True)
class BuildOption(Option):
    """A field of `BuildSettings`."""

    _: KW_ONLY
    of_index: bool = False
    """Whether it is of an index alone, and not of the shards that it may be made of."""

    of_shards: bool = False
    """Whether shards have it, so that an index of them takes no other value."""


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} is {shown(value)}, but a string is expected")
    return value


def names_of(name: str, value: object) -> tuple[str, ...]:
    """The value of an argument, a list of fields, without repetitions.

    :raises InvalidArgumentError: When it is something else.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise InvalidArgumentError(f"{name} is {shown(value)}, but a list of fields is expected")
    return tuple(dict.fromkeys(value))


def _boost(_: str, value: Any) -> "BoostObjects":
    from swiftlet.index.columns.boosts import parse_boosts

    parse_boosts(value)
    return tuple(value) if isinstance(value, list | tuple) else (value,)


_OfIndex = partial(BuildOption, of_index=True)
_OfShards = partial(BuildOption, of_shards=True)


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How an index is built. Its values are checked when it is made.

    :raises InvalidArgumentError: When a value is of another type or out of its range.
    """

    passage_tokens: Annotated[
        int, _OfShards("Longest passage, in tokens, title included.", least=1)
    ] = 128
    overlap_tokens: Annotated[
        int, _OfShards("Tokens that neighbouring passages share.", least=0)
    ] = 16
    truncate: Annotated[
        bool, _OfShards("One passage per document: as much as the encoder reads.")
    ] = False
    factory: Annotated[
        str | None,
        _OfIndex("The type of index, a FAISS factory string.", _text, unset="chosen by size"),
    ] = None
    language: Annotated[
        str | None,
        _OfIndex(
            "The language of the words: auto, that of the documents; english, german … or none, "
            "which keeps them whole; several, as english,german; or word-pieces, or "
            "word-pieces-and-pairs."
        ),
    ] = AUTO
    facets: Annotated[
        tuple[str, ...],
        _OfIndex(
            "A field of the metadata to count and choose by; may be repeated.",
            names_of,
            flag="--facet",
        ),
    ] = ()
    boost: Annotated[
        "BoostObjects | None",
        _OfIndex(
            "What documents gain in a search by their metadata, in JSON, unless the search asks "
            'for another boost: {"field": "modified", "half_life_days": 30, "weight": 0.1}.',
            _boost,
            unset="nothing",
        ),
    ] = None
    precision: Annotated[
        "Precision | None",
        _OfShards("The precision of the encoder.", unset="the encoder's default"),
    ] = None
    threads: Annotated[int | None, BuildOption("Encoding threads.", least=1, unset="all cores")] = (
        None
    )

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def kept(self) -> dict[str, Any]:
        """What the manifest of the index keeps for its searches."""
        boost = {} if self.boost is None else {"boost": list(self.boost)}
        return {"facets": list(self.facets), **boost}

    def splitter(self, encoder: "ModelEncoder") -> "PassageSplitter":
        """What splits documents for this encoder.

        :raises InvalidArgumentError: When a passage would have no tokens of its own.
        """
        from swiftlet.index.documents.passages import PassageSplitter

        return PassageSplitter(
            encoder.tokenizer,
            max_tokens=encoder.max_tokens if self.truncate else self.passage_tokens,
            overlap_tokens=0 if self.truncate else self.overlap_tokens,
            truncate=self.truncate,
            prompt=encoder.prompt,
            headings=True,
        )


OPTIONS: dict[str, BuildOption] = options_of(BuildSettings)
"""The options of a build, by the names of its fields."""
