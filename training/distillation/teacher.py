"""Trained query encoders, and the teacher, with a cache of its outputs on disk."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from accelerate import Accelerator
from torch.nn import functional
from typing_extensions import override

from swiftlet import encoders
from swiftlet.encoders.encoder import Encoder, OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.encoders.function import FunctionEncoder
from swiftlet.encoders.opening import is_asked, open_encoder
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.acceptance import of_index
from swiftlet.manifest import read_manifest
from swiftlet.types import Embeddings
from training.distillation.batches import encode_by_length
from training.distillation.texts import TextMixture, TextSource
from training.loop.embedding_cache import EmbeddingCache
from training.loop.log import TrainingProgress
from training.model.fingerprint import embedding_space, outputs_key
from training.model.folders import is_exported
from training.model.towers import Tower, TowerSettings
from training.model.trained import trained_encoder
from training.objective.negatives.sampler import Rows

_BLOCK = 4096


class TorchEncoder:
    """Encodes with torch, one text per forward pass; embeddings are normalised."""

    def __init__(self, tower: Tower, model: torch.nn.Module, dim: int, space: str) -> None:
        self.dim = self.width = dim
        self.max_tokens = tower.max_tokens
        self.embedding_space = space
        self._tower = tower
        self._model = model
        self._device = next(model.parameters()).device

    def tokenise(self, text: str) -> list[int]:
        """Token ids of one text, truncated to `max_tokens`."""
        ids: list[int] = self._tower.tokenise([text])["input_ids"][0].tolist()
        return ids

    @torch.inference_mode()
    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        """The normalised embedding (dim,) of one tokenised text."""
        ids = torch.tensor([list(token_ids)], device=self._device)
        output = self._model({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        embedding: Embeddings = functional.normalize(output.float(), dim=-1)[0].cpu().numpy()
        return embedding

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """The normalised embeddings (n, dim) of `texts`, one after the other."""
        return np.stack([self.embed(self.tokenise(text)) for text in texts])


def load_query_encoder(
    settings: TowerSettings, device: torch.device | str = "cpu"
) -> tuple[Encoder, Tower | None]:
    """Load a trained encoder, with its torch model unless `swiftlet export` wrote it.

    If a training run made it, it has the run's space. A function and an address are asked.

    :raises InvalidArgumentError: When there is no such model.
    :raises ModelError: When it cannot be loaded or needs its own code.
    :raises ArtefactError: When it was altered after the training run or the export.
    """
    if is_asked(f"{settings.model}"):
        return open_encoder(f"{settings.model}", "query"), None
    folder = encoders.find_shipped(Path(settings.model))
    if is_exported(folder):
        return OnnxEncoder.load(folder, role="query"), None
    trained = trained_encoder(settings.model)
    tower = Tower.load(replace(settings, role="query")).eval().to(device)
    space = embedding_space(tower.with_projection(None))
    if trained is not None:
        space = trained.embedding_space
    return TorchEncoder(tower, tower, tower.width, space), tower


class Targets:
    """What a student learns to give: the known outputs of texts.

    `width` is the size of an output, and `embedding_space` the space of the indexes that can be
    searched with them. A `Teacher` has an `encoder`, which gives outputs of other texts, and
    perhaps a `tower`, its torch model.
    """

    encoder: Encoder | None = None
    tower: Tower | None = None

    def __init__(self, width: int, embedding_space: str) -> None:
        self.width, self.embedding_space = width, embedding_space

    def outputs(self, mixture: TextMixture, numbers: Rows) -> torch.Tensor:
        """Outputs (n, width) for the texts with these numbers (n,).

        :raises StorageError: When the file system refuses.
        """
        outputs, first = torch.empty(len(numbers), self.width), 0
        for source in mixture.sources:
            here = (numbers >= first) & (numbers < first + source.num_passages)
            if here.any():
                outputs[torch.from_numpy(here)] = self.of_source(source, numbers[here] - first)
            first += source.num_passages
        return outputs

    def of_source(self, source: TextSource, rows: Rows) -> torch.Tensor:
        """Outputs (n, width) for the texts at `rows` (n,) of a source."""
        assert source.outputs is not None, "only a teacher gives outputs that are not known"  # noqa: S101
        return torch.from_numpy(source.outputs[rows])

    def prepare(self, mixture: TextMixture, progress: TrainingProgress) -> None:
        """Compute all outputs for the mixture that are not known."""


class Teacher(Targets):
    """A query encoder. One that `swiftlet export` wrote, or that is asked, has no `tower`."""

    encoder: Encoder

    def __init__(
        self, encoder: Encoder, tower: Tower | None, directory: Path, accelerator: Accelerator
    ) -> None:
        """Cache the outputs of `tower`, in the precision of the run, in `directory`.

        :raises InvalidArgumentError: When the encoder gives a text several vectors.
        """
        if encoder.width != encoder.dim or (tower is not None and tower.vectors > 1):
            raise InvalidArgumentError(
                "the teacher gives a text several vectors, but a query has one: take a teacher "
                "with one vector"
            )
        super().__init__(encoder.dim, encoder.embedding_space)
        self.encoder, self.tower = encoder, tower
        self._accelerator = accelerator
        if isinstance(encoder, OnnxEncoder):
            key = f"{encoder.manifest.fingerprint} {encoder.precision}"
        elif isinstance(encoder, FunctionEncoder):
            key = f"{encoder.embedding_space} {encoder}"
        elif tower is not None:
            # The space is not enough as a key, since several encoders can have the same one.
            key = outputs_key(tower, accelerator.mixed_precision)
        self._outputs = EmbeddingCache(directory, key, encoder.dim)

    @classmethod
    def load(
        cls,
        settings: TowerSettings,
        directory: Path,
        accelerator: Accelerator,
        index: Path | None = None,
    ) -> Self:
        """Load a teacher as `load_query_encoder` does.

        :param index: Without a torch model, the teacher is tried on the passages of this index.
        :raises EmbeddingSpaceMismatch: When it does not reproduce their embeddings.
        """
        encoder, tower = load_query_encoder(settings, accelerator.device)
        if index is not None and isinstance(encoder, OnnxEncoder | FunctionEncoder):
            encoder = of_index(encoder, index, read_manifest(index, "index"))
        if isinstance(encoder, FunctionEncoder):
            encoder.normalises = True  # students learn directions
        return cls(encoder, tower, directory, accelerator)

    @override
    def of_source(self, source: TextSource, rows: Rows) -> torch.Tensor:
        if source.outputs is not None:
            return super().of_source(source, rows)
        return self._outputs.get(source, rows, partial(self._compute, source))

    @override
    def prepare(self, mixture: TextMixture, progress: TrainingProgress) -> None:
        numbers = np.concatenate([mixture.training, mixture.held_out])
        progress.begin("The teacher's embeddings", len(numbers))
        for start in range(0, len(numbers), _BLOCK):
            block = numbers[start : start + _BLOCK]
            self.outputs(mixture, block)
            progress.advance(len(block))

    def encode(self, texts: list[str]) -> torch.Tensor:
        """Outputs (n, width) of `texts` on the CPU: pooled, and normalised if it was exported."""
        if self.tower is None:
            return torch.from_numpy(encode_texts(self.encoder, texts))
        with self._accelerator.autocast():
            return encode_by_length(self.tower, self.tower, texts, self._accelerator.device)

    def _compute(self, source: TextSource, rows: Rows) -> torch.Tensor:
        return self.encode(source.texts(rows.tolist()))
