"""The student: some layers of the teacher, a look-up table, or another checkpoint."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from swiftlet.errors import InvalidArgumentError
from training.distillation.settings import Distillation
from training.model.dual_encoder import Features
from training.model.loading import truncating_tokenizer
from training.model.lookup import make_lookup
from training.model.towers import Tower

_WORD = "a"
_ENCODED_TOGETHER = 512


class Student(nn.Module):
    """A query encoder with outputs (n, width) of the teacher's width."""

    def __init__(self, tower: Tower, projection: nn.Linear | None = None) -> None:
        super().__init__()
        self.tower = tower
        self.projection = projection

    @classmethod
    def make(cls, settings: Distillation, width: int) -> "Student":
        """The untrained student for a teacher of this `width`, on the CPU.

        :raises InvalidArgumentError: When there is no such model or layer, or the widths differ
            without a projection.
        :raises ModelError: When the model cannot be loaded, needs its own code, or cannot be
            cut.
        """
        tower = Tower.load(replace(settings.student_tower(), role="query"))
        if settings.freeze_token_embeddings:
            tower.token_embeddings.weight.requires_grad_(False)
        if settings.projects:
            return cls(tower, nn.Linear(tower.width, width))
        if tower.width != width:
            raise InvalidArgumentError(
                f"the student is {tower.width} wide and the teacher {width}: without a projection "
                "they must be equal"
            )
        return cls(tower)

    @classmethod
    @torch.no_grad()
    def lookup(cls, teacher: Tower, max_tokens: int | None = None) -> "Student":
        """A look-up table in which a token has the teacher's output for that token alone."""
        max_tokens = max_tokens or teacher.max_tokens
        tokenizer = truncating_tokenizer(teacher.encoder.tokenizer, max_tokens)
        word = tokenizer.encode(_WORD)
        inner = [place for place, special in enumerate(word.special_tokens_mask) if not special]
        outer = word.ids[: inner[0]], word.ids[inner[-1] + 1 :]
        before, after = (torch.tensor(ids, dtype=torch.int64) for ids in outer)
        device, rows = next(teacher.parameters()).device, []
        for tokens in torch.split(torch.arange(tokenizer.get_vocab_size()), _ENCODED_TOGETHER):
            around = [part.expand(len(tokens), -1) for part in (before, after)]
            ids = torch.cat([around[0], tokens[:, None], around[1]], dim=1).to(device)
            features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            rows.append(teacher(features).float().cpu())
        return cls(Tower(make_lookup(tokenizer, torch.cat(rows), max_tokens), max_tokens))

    def forward(self, features: Features) -> torch.Tensor:
        """Outputs (n, width) of tokenised texts, not normalised."""
        outputs: torch.Tensor = self.tower(dict(features))
        return outputs if self.projection is None else self.projection(outputs)

    def save(self, directory: Path) -> None:
        """Write the whole encoder as a Sentence Transformers directory."""
        self.tower.save(directory, self.projection)
