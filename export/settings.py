"""The settings of an export."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from swiftlet.arguments import Option, check_values, number
from swiftlet.errors import InvalidArgumentError
from training.model.poolings import POOLINGS

if TYPE_CHECKING:  # NumPy is not loaded for the help of a command
    from swiftlet.encoders.encoder import Precision, Role

PRECISIONS: tuple["Precision", ...] = ("fp32", "int8")
"""The precisions that an export can write."""

Announce = Callable[[str], None]
"""Called with the name of each stage when it begins."""


def silent(_stage: str) -> None:
    """Report no progress."""


@dataclass(frozen=True, kw_only=True)
class ExportSettings:
    """The settings of any model, checked when they are made.

    By default, the name is the name of the model's directory, of the model on the hub, or of the
    training run that made it. The default among `precisions` is chosen by measurements.

    :raises InvalidArgumentError: When a setting is out of range.
    """

    name: Annotated[str | None, Option("The name of the artefact.", unset="the model's name")] = (
        None
    )
    max_tokens: Annotated[
        int | None,
        Option(
            "Longest text, in tokens; the rest is left out.", unset="the model's limit", least=1
        ),
    ] = None
    precisions: Annotated[
        "Sequence[Precision] | None",
        Option("fp32 or int8; may be repeated.", flag="--precision", unset="both"),
    ] = None

    def __post_init__(self) -> None:
        check_values(self)
        known = self.precisions is None or set(self.precisions) <= set(PRECISIONS)
        if not known or not self.chosen_precisions:
            raise InvalidArgumentError(
                f"precisions are {list(self.precisions or ())}, but some of "
                f"{', '.join(PRECISIONS)} are expected"
            )

    @property
    def chosen_precisions(self) -> tuple["Precision", ...]:
        """The precisions to write, in the order of `PRECISIONS`."""
        wanted = PRECISIONS if self.precisions is None else self.precisions
        return tuple(each for each in PRECISIONS if each in wanted)


@dataclass(frozen=True, kw_only=True)
class EncoderSettings(ExportSettings):
    """The settings of an encoder.

    :param dim: The embedding space is another one with it, unless the space is given.
    :param vocabulary: Tokens that are not in the first 200,000 of these texts are left out, unless
        they are single characters; the embedding space stays.
    :param prompts: What stands before queries and before passages; by default the model's own.
    :param origin: The origin of the weights, for the manifest; by default the name of the model.
    :param space: The embedding space of the document encoder that this query encoder was trained
        for; by default the space of the training run that made the model, or else its own.
    :param role: What the encoder reads, if it is one of a pair.
    :param weight: The default weight of its scores in hybrid searches, if it needs another one.
    """

    pooling: Annotated[
        str | None,
        Option(f"The pooling, if the checkpoint does not define it: {', '.join(POOLINGS)}."),
    ] = None
    dim: Annotated[
        int | None, Option("Keep the first numbers of an embedding.", unset="all of them", least=1)
    ] = None
    vocabulary: Annotated[
        Path | None,
        Option("Queries or a corpus: keep the tokens of these texts alone.", unset="all tokens"),
    ] = None
    collection: Annotated[
        Path | None, Option("BEIR folder to measure the nDCG change of int8 on.")
    ] = None
    split: Annotated[str, Option("The split of the collection's qrels.")] = "test"
    prompts: "Mapping[Role, str]" = field(default_factory=dict)
    origin: str | None = None
    space: str | None = None
    role: "Role | None" = None
    weight: float | None = None


@dataclass(frozen=True, kw_only=True)
class RerankerSettings(ExportSettings):
    """The settings of a re-ranker."""

    weight: Annotated[
        float | None,
        Option(
            "The weight of its scores beside a search's scores, from 0 to 1.",
            partial(number, least=0, most=1),
            unset="as its training has chosen, or 1",
        ),
    ] = None
