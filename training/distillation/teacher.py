"""The teacher: what it says about each text is computed once, kept on disk and used again."""

from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from accelerate import Accelerator

from training.context import TrainingProgress
from training.distillation.batches import token_counts
from training.distillation.texts import Places, TextMixture, TextSource
from training.encoders import Tower, TowerSettings
from training.fingerprint import embedding_space
from training.frozen_outputs import FrozenOutputs
from training.negatives.sampler import Rows
from training.trained import trained_encoder

_BATCH_SIZE = 64
_BLOCK = 4096


class Teacher:
    """A query encoder that is not trained any more.

    `width` is that of its embeddings, and `embedding_space` the space of the index that it queries.
    """

    def __init__(self, tower: Tower, space: str, directory: Path, accelerator: Accelerator) -> None:
        """Keep what `tower` says, in the precision of the run, in `directory`."""
        self.tower = tower.eval().to(accelerator.device)
        self.width = tower.width
        self.embedding_space = space
        self._accelerator = accelerator
        # Not by the space alone, which other encoders share.
        own = embedding_space(tower.with_projection(None))
        key = f"{own} {tower.max_tokens} {accelerator.mixed_precision}"
        self._outputs = FrozenOutputs(directory, key, tower.width)

    @classmethod
    def load(cls, settings: TowerSettings, directory: Path, accelerator: Accelerator) -> Self:
        """Load a teacher; one that a training run made embeds into that run's space.

        :raises InvalidArgumentError: When there is no such model.
        :raises ModelError: When it cannot be loaded or needs code of its own.
        :raises ArtefactError: When it is no longer what the training run made.
        """
        trained = trained_encoder(settings.model)
        tower = Tower.load(settings)
        space = embedding_space(tower.with_projection(None))
        if trained is not None:
            space = trained.embedding_space
        return cls(tower, space, directory, accelerator)

    def outputs(self, mixture: TextMixture, places: Places) -> torch.Tensor:
        """Pooled outputs (n, width) at `places`, not normalised, on the CPU.

        :raises StorageError: When the file system refuses.
        """
        outputs = torch.empty(len(places), self.width)
        for number in np.unique(places.sources).tolist():
            here = places.sources == number
            source = mixture.sources[number]
            found = self._outputs.get(source, places.rows[here], partial(self._compute, source))
            outputs[torch.from_numpy(here)] = found
        return outputs

    def prepare(self, mixture: TextMixture, progress: TrainingProgress) -> None:
        """Compute what is not on disk yet for the whole mixture."""
        places = [mixture.training, mixture.held_out]
        progress.stage("The teacher's embeddings", sum(map(len, places)))
        for part in places:
            for start in range(0, len(part), _BLOCK):
                block = part[np.arange(start, min(start + _BLOCK, len(part)))]
                self.outputs(mixture, block)
                progress.advance(len(block))

    @torch.inference_mode()
    def encode(self, texts: list[str]) -> torch.Tensor:
        """Pooled outputs (n, width) of `texts`, not normalised, on the CPU."""
        order = np.argsort(token_counts(self.tower, texts), kind="stable")
        outputs = torch.empty(len(texts), self.width)
        device = self._accelerator.device
        for start in range(0, len(order), _BATCH_SIZE):
            chosen = order[start : start + _BATCH_SIZE]
            features = self.tower.tokenise([texts[place] for place in chosen])
            on_device = {name: value.to(device) for name, value in features.items()}
            with self._accelerator.autocast():
                found = self.tower(on_device)
            outputs[torch.from_numpy(chosen)] = found.float().cpu()
        return outputs

    def _compute(self, source: TextSource, rows: Rows) -> torch.Tensor:
        return self.encode(source.texts(rows.tolist()))
