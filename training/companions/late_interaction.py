"""A late-interaction teacher: the token outputs of the untrained document model, by MaxSim."""

import copy
from collections.abc import Sequence

import torch
from accelerate import Accelerator
from torch.nn import functional

from swiftlet.errors import InvalidArgumentError
from training.model.towers import Tower


class LateInteraction:
    """Scores texts as ColBERT: each token of a query finds its most similar one in a document.

    The score is the sum of these cosines over the tokens of the query (Khattab and Zaharia 2020).
    Queries and documents are encoded by the document model as it is before its training.
    """

    def __init__(self, tower: Tower, accelerator: Accelerator, micro_batch_size: int) -> None:
        """Copy the document tower, and encode at most `micro_batch_size` texts at once.

        :raises InvalidArgumentError: When it is a look-up encoder, whose tokens have no context.
        """
        if tower.is_lookup:
            raise InvalidArgumentError(
                "loss.teacher_weight needs the outputs of tokens, which a look-up encoder does not "
                "have: choose another document_encoder.model, or set it to 0"
            )
        self._tower = copy.deepcopy(tower).eval().requires_grad_(False)
        self._accelerator, self._size = accelerator, micro_batch_size

    @torch.no_grad()
    def scores(self, queries: Sequence[str], documents: Sequence[str]) -> torch.Tensor:
        """The score of each document for each query, (n, m)."""
        parts = [self._encoded(queries[i : i + self._size]) for i in self._starts(queries)]
        rows = []
        for first in self._starts(documents):
            tokens, present = self._encoded(documents[first : first + self._size])
            rows.append(torch.cat([_max_sim(*part, tokens, present) for part in parts]))
        return torch.cat(rows, dim=1)

    def _starts(self, texts: Sequence[str]) -> range:
        return range(0, len(texts), self._size)

    def _encoded(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """The outputs of tokens, of length 1 (n, tokens, width), and whether there is one."""
        device = self._accelerator.device
        features = {name: each.to(device) for name, each in self._tower.tokenise(texts).items()}
        with self._accelerator.autocast():
            outputs = self._tower.token_outputs(features)
        return functional.normalize(outputs.float(), dim=-1), features["attention_mask"].bool()


def _max_sim(
    queries: torch.Tensor, asked: torch.Tensor, documents: torch.Tensor, present: torch.Tensor
) -> torch.Tensor:
    """The sum over the `asked` tokens of each query of the best of those `present`, (n, m)."""
    cosines = torch.einsum("qiw,djw->qidj", queries, documents)
    best = cosines.masked_fill(~present, -torch.inf).amax(3)
    return (best * asked.unsqueeze(2)).sum(1)
