"""Samplers of negatives from a few inputs."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from training.data.positives import KnownPositives
from training.objective.negatives.sampler import NamedSampler, SamplerInputs
from training.recipes.registry import Negatives

Made = TypeVar("Made", bound=NamedSampler)


@dataclass(frozen=True, slots=True)
class Counted:
    """Passages without texts."""

    num_passages: int
    key: str = "counted"

    def texts(self, rows: object) -> list[str]:
        raise NotImplementedError


def made(
    kind: type[Made],
    known: KnownPositives,
    num_passages: int = 0,
    *,
    settings: dict[str, Any] | None = None,
    seed: int | tuple[int, ...] = 0,
    **inputs: Any,
) -> Made:
    """A sampler with the `settings` of [negatives] and these inputs."""
    defaults = {
        "queries": (),
        "passages": Counted(num_passages),
        "pairs": np.empty((0, 2), np.int64),
        "given_negatives": None,
        "encode_queries": None,
        "encode_passages": None,
        "vectors": 1,
        "width": 1,
        "scale": 20.0,
        "device": torch.device("cpu"),
    }
    seed = seed if isinstance(seed, tuple) else (seed,)
    made_of = SamplerInputs(known=known, seed=seed, **defaults | inputs)
    return kind(Negatives(**settings or {}), made_of)


def normalised(count: int, seed: int, dim: int = 8) -> torch.Tensor:
    """Random vectors (count, dim) of length 1."""
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(count, dim, generator=generator), dim=1)
