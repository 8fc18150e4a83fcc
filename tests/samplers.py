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


def sampler_inputs(
    known: KnownPositives, num_passages: int = 0, seed: int | tuple[int, ...] = 0, **inputs: Any
) -> SamplerInputs:
    """These inputs, and as little as possible of the others."""
    defaults: dict[str, Any] = {
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
    return SamplerInputs(known=known, seed=seed, **defaults | inputs)


def made(
    kind: type[Made],
    known: KnownPositives,
    num_passages: int = 0,
    *,
    settings: dict[str, Any] | None = None,
    **inputs: Any,
) -> Made:
    """A sampler with the `settings` of [negatives] and these inputs."""
    return kind(Negatives(**settings or {}), sampler_inputs(known, num_passages, **inputs))


def normalised(count: int, seed: int, dim: int = 8) -> torch.Tensor:
    """Random vectors (count, dim) of length 1."""
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(count, dim, generator=generator), dim=1)
