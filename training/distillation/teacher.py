"""The teacher, with a cache of its outputs on disk."""

from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from accelerate import Accelerator

from training.distillation.batches import encode_by_length
from training.distillation.texts import TextIndices, TextMixture, TextSource
from training.loop.embedding_cache import EmbeddingCache
from training.loop.log import TrainingProgress
from training.model.fingerprint import embedding_space
from training.model.towers import Tower, TowerSettings
from training.model.trained import trained_encoder
from training.objective.negatives.sampler import Rows

_BLOCK = 4096


class Teacher:
    """A trained query encoder.

    `width` is the size of its embeddings. `embedding_space` is the space of the indexes that it can
    search.
    """

    def __init__(self, tower: Tower, space: str, directory: Path, accelerator: Accelerator) -> None:
        """Cache the outputs of `tower`, in the precision of the run, in `directory`."""
        self.tower = tower.eval().to(accelerator.device)
        self.width = tower.width
        self.embedding_space = space
        self._accelerator = accelerator
        # The embedding space is not enough as a key, since several encoders can have the same one.
        own = embedding_space(tower.with_projection(None))
        key = f"{own} {tower.max_tokens} {accelerator.mixed_precision}"
        self._outputs = EmbeddingCache(directory, key, tower.width)

    @classmethod
    def load(cls, settings: TowerSettings, directory: Path, accelerator: Accelerator) -> Self:
        """Load a teacher. If a training run made it, its space is that of the run.

        :raises InvalidArgumentError: When there is no such model.
        :raises ModelError: When it cannot be loaded or needs its own code.
        :raises ArtefactError: When it was altered after the training run.
        """
        trained = trained_encoder(settings.model)
        tower = Tower.load(settings)
        space = embedding_space(tower.with_projection(None))
        if trained is not None:
            space = trained.embedding_space
        return cls(tower, space, directory, accelerator)

    def outputs(self, mixture: TextMixture, indices: TextIndices) -> torch.Tensor:
        """Pooled outputs (n, width) at `indices`, not normalised, on the CPU.

        :raises StorageError: When the file system refuses.
        """
        outputs = torch.empty(len(indices), self.width)
        for number in np.unique(indices.sources).tolist():
            here = indices.sources == number
            source = mixture.sources[number]
            found = self._outputs.get(source, indices.rows[here], partial(self._compute, source))
            outputs[torch.from_numpy(here)] = found
        return outputs

    def prepare(self, mixture: TextMixture, progress: TrainingProgress) -> None:
        """Compute all outputs for the mixture that are not in the cache."""
        indices = [mixture.training, mixture.held_out]
        progress.begin("The teacher's embeddings", sum(map(len, indices)))
        for part in indices:
            for start in range(0, len(part), _BLOCK):
                block = part[np.arange(start, min(start + _BLOCK, len(part)))]
                self.outputs(mixture, block)
                progress.advance(len(block))

    def encode(self, texts: list[str]) -> torch.Tensor:
        """Pooled outputs (n, width) of `texts`, not normalised, on the CPU."""
        with self._accelerator.autocast():
            return encode_by_length(self.tower, self.tower, texts, self._accelerator.device)

    def _compute(self, source: TextSource, rows: Rows) -> torch.Tensor:
        return self.encode(source.texts(rows.tolist()))
