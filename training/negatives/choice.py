"""The samplers that a recipe asks for."""

from collections.abc import Callable, Sequence

import torch

from retrieval.errors import InvalidArgumentError
from training.data import TrainingData
from training.negatives.bm25 import Bm25Sampler
from training.negatives.cache import NegativeCache
from training.negatives.given import GivenSampler
from training.negatives.in_batch import InBatchSampler
from training.negatives.mined import MinedSampler
from training.negatives.mixed import MixedSampler
from training.negatives.sampler import NegativeSampler
from training.negatives.uniform import UniformSampler
from training.recipe import Loss, Negatives, SamplerName

EncodeTexts = Callable[[Sequence[str]], torch.Tensor]


def make_sampler(
    settings: Negatives,
    loss: Loss,
    data: TrainingData,
    *,
    dim: int,
    seed: int,
    device: torch.device,
    encode_queries: EncodeTexts,
) -> NegativeSampler:
    """One sampler, or several mixed.

    :param encode_queries: Embeddings (n, dim) of texts by the query encoder as it is when called.
    :raises InvalidArgumentError: When the settings do not go together or with the data.
    """
    known, num_passages = data.known, data.passages.num_passages

    def make(name: SamplerName, place: int) -> NegativeSampler:
        own_seed = (seed, place)  # else all would draw by the same random numbers
        match name:
            case "in_batch":
                return InBatchSampler(known)
            case "uniform":
                return UniformSampler(
                    known, num_passages=num_passages, per_query=settings.per_query, seed=own_seed
                )
            case "bm25":
                return Bm25Sampler(
                    known,
                    query_texts=data.queries,
                    passages=data.passages,
                    per_query=settings.per_query,
                    depth=settings.depth,
                    seed=own_seed,
                )
            case "mined":
                return MinedSampler(
                    known,
                    encode_queries=lambda numbers: encode_queries(
                        [data.queries[number] for number in numbers]
                    ),
                    num_passages=num_passages,
                    per_query=settings.per_query,
                    depth=settings.depth,
                    refresh_every=settings.refresh_every,
                    seed=own_seed,
                )
            case "given":
                if data.given_negatives is None:
                    raise InvalidArgumentError(
                        "negatives.samplers has 'given', but the data give none: use triples"
                    )
                return GivenSampler(
                    known,
                    pairs=data.pairs,
                    given=data.given_negatives,
                    per_query=settings.per_query,
                    seed=own_seed,
                )
            case "cache":
                return NegativeCache(
                    known,
                    num_passages=num_passages,
                    dim=dim,
                    per_query=settings.per_query,
                    fraction=settings.cache_fraction,
                    refresh_fraction=settings.refresh_fraction,
                    seed=own_seed,
                    score_factor=loss.score_factor,
                    temperature=loss.temperature,
                    device=device,
                    dtype=getattr(torch, settings.cache_precision),
                )

    samplers = [make(name, place) for place, name in enumerate(settings.samplers)]
    return samplers[0] if len(samplers) == 1 else MixedSampler(samplers)
