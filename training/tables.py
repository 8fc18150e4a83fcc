"""The tables of a recipe, and the types of their settings."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import core_schema

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
FloatingPoint = Literal["fp32", "bf16", "fp16"]


class Table(BaseModel):
    """A table of a recipe. Unknown settings are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )


@dataclass(frozen=True, slots=True)
class OneOf:
    """The type of a setting that is one of the `names` in a registry."""

    names: Iterable[str]

    def __get_pydantic_core_schema__(self, *_: Any) -> core_schema.CoreSchema:
        return core_schema.literal_schema([*self.names])
