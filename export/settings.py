"""The settings of an export."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swiftlet.arguments import number
from swiftlet.encoders.encoder import Precision, Role
from swiftlet.errors import InvalidArgumentError

PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")
"""The precisions that an export can write."""

Announce = Callable[[str], None]
"""Called with the name of each stage when it begins."""


def silent(_stage: str) -> None:
    """Report no progress."""


@dataclass(frozen=True, kw_only=True)
class ExportSettings:
    """The settings of any model.

    :param name: The name of the artefact; by default the name of the model's directory, of the
        model on the hub, or of the training run that made it.
    :param max_tokens: Texts are truncated to this many tokens; by default the model's own setting.
    :param precisions: The precisions to write; None writes all. The default among them is chosen by
        measurements.
    :raises InvalidArgumentError: When a setting is out of range.
    """

    name: str | None = None
    max_tokens: int | None = None
    precisions: Sequence[Precision] | None = None

    def __post_init__(self) -> None:
        known = self.precisions is None or set(self.precisions) <= set(PRECISIONS)
        if not known or not self.chosen_precisions:
            raise InvalidArgumentError(
                f"precisions are {list(self.precisions or ())}, but some of "
                f"{', '.join(PRECISIONS)} are expected"
            )

    @property
    def chosen_precisions(self) -> tuple[Precision, ...]:
        """The precisions to write, in the order of `PRECISIONS`."""
        wanted = PRECISIONS if self.precisions is None else self.precisions
        return tuple(each for each in PRECISIONS if each in wanted)


@dataclass(frozen=True, kw_only=True)
class EncoderSettings(ExportSettings):
    """The settings of an encoder.

    :param pooling: The pooling, if the checkpoint does not define it.
    :param dim: Keep the first numbers of an embedding alone. The embedding space is another one,
        unless it is given.
    :param prompts: What stands before queries and before passages; by default the model's own.
    :param vocabulary: Queries or a corpus. Tokens that are not in the first 200,000 of these texts
        are left out, unless they are single characters; the embedding space stays.
    :param collection: A BEIR folder. The nDCG@10 of int8 and fp32 are compared on its `split`.
    :param origin: The origin of the weights, for the manifest; by default the name of the model.
    :param space: The embedding space of the document encoder that this query encoder was trained
        for; by default the space of the training run that made the model, or else its own.
    :param role: What the encoder reads, if it is one of a pair.
    """

    pooling: str | None = None
    dim: int | None = None
    prompts: Mapping[Role, str] = field(default_factory=dict)
    vocabulary: Path | None = None
    collection: Path | None = None
    split: str = "test"
    origin: str | None = None
    space: str | None = None
    role: Role | None = None


@dataclass(frozen=True, kw_only=True)
class RerankerSettings(ExportSettings):
    """The settings of a re-ranker.

    :param weight: The weight of its scores beside the scores of a search, from 0 to 1; by default
        the weight that its training has chosen, or else 1.
    """

    weight: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight is not None:
            number("weight", self.weight, least=0, most=1)
