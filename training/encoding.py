"""Texts to embeddings by all processes together, with gradient or without."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from accelerate import Accelerator

from training.dual_encoder import DualEncoder, Features
from training.encoders import Tower
from training.frozen_outputs import FrozenOutputs
from training.negatives.sampler import Rows
from training.passages import PassageTexts

Finish = Callable[[torch.Tensor], torch.Tensor]
"""Projects and normalises a language model's outputs."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Embeddings (n, dim) of a batch, from which a loss is computed.

    They are the end of the graph: after the loss's backward, `backward` carries their gradient on
    into the tower.
    """

    embeddings: torch.Tensor
    backward: Callable[[], None]


class BatchEncoder:
    """Encodes by both towers; each process does its share, all get all embeddings."""

    def __init__(
        self,
        dual_encoder: DualEncoder,
        accelerator: Accelerator,
        *,
        micro_batch_size: int,
        frozen_outputs: FrozenOutputs | None = None,
    ) -> None:
        """Encode at most `micro_batch_size` texts at once.

        :param frozen_outputs: What the document language model says, as long as it is frozen.
        """
        self.dual_encoder = dual_encoder
        self.frozen_outputs = frozen_outputs
        self._accelerator = accelerator
        self._micro_batch_size = micro_batch_size

    def queries(self, texts: Sequence[str]) -> torch.Tensor:
        """Embeddings (n, dim) of `texts` by the query encoder, without gradient."""
        dual = self.dual_encoder
        return self._without_gradient(dual.query_tower, dual.finish_queries, texts)

    def documents(self, texts: Sequence[str]) -> torch.Tensor:
        """Embeddings (n, dim) of `texts` by the document encoder, without gradient."""
        dual = self.dual_encoder
        return self._without_gradient(dual.document_tower, dual.finish_documents, texts)

    def passages(self, passages: PassageTexts, rows: Rows) -> torch.Tensor:
        """Embeddings (n, dim) of passage rows by the document encoder, without gradient."""
        if self.frozen_outputs is None:
            return self.documents(passages.texts(rows))
        with torch.no_grad():
            outputs = self._frozen(self.frozen_outputs, passages, rows)
            return self.dual_encoder.finish_documents(outputs)

    def queries_with_gradient(self, texts: Sequence[str]) -> Encoded:
        """Embeddings of `texts` by the query encoder, for a loss."""
        dual = self.dual_encoder
        return self._with_gradient(dual.query_tower, dual.finish_queries, texts)

    def passages_with_gradient(self, passages: PassageTexts, rows: Rows) -> Encoded:
        """Embeddings of passage rows by the document encoder, for a loss.

        Of a frozen language model only the projection gets a gradient.
        """
        dual = self.dual_encoder
        if self.frozen_outputs is None:
            return self._with_gradient(
                dual.document_tower, dual.finish_documents, passages.texts(rows)
            )
        # Every process has all rows here, so only the first may count their gradient.
        embeddings = dual.finish_documents(self._frozen(self.frozen_outputs, passages, rows))
        return _cut(embeddings, counts=self._accelerator.is_main_process)

    def _frozen(self, known: FrozenOutputs, passages: PassageTexts, rows: Rows) -> torch.Tensor:
        tower = self.dual_encoder.document_tower

        def compute(missing: Rows) -> torch.Tensor:
            return self._without_gradient(tower, _as_is, passages.texts(missing))

        return known.get(passages, rows, compute).to(self._accelerator.device)

    @torch.no_grad()
    def _without_gradient(self, tower: Tower, finish: Finish, texts: Sequence[str]) -> torch.Tensor:
        share = self._share(len(texts))
        # Equally long texts together, so that little is padding.
        order = sorted(range(*share.indices(len(texts))), key=lambda place: len(texts[place]))
        training = tower.training
        tower.eval()
        pieces = []
        for start in range(0, len(order), self._micro_batch_size):
            places = order[start : start + self._micro_batch_size]
            features = self._features(tower, [texts[place] for place in places])
            pieces.append(self._finished(tower, finish, features))
        tower.train(training)
        if not pieces:  # more processes than texts
            width = tower.width if finish is _as_is else self.dual_encoder.dim
            pieces.append(torch.empty(0, width, device=self._accelerator.device))
        back = torch.as_tensor(np.argsort(np.asarray(order, dtype=np.int64)))
        return self._gathered(torch.cat(pieces)[back.to(pieces[0].device)], len(texts))

    def _with_gradient(self, tower: Tower, finish: Finish, texts: Sequence[str]) -> Encoded:
        share = self._share(len(texts))
        own = list(texts[share])
        size = self._micro_batch_size
        batches = [self._features(tower, own[i : i + size]) for i in range(0, len(own), size)]
        if len(batches) == 1:
            with_graph = self._finished(tower, finish, batches[0])
            return self._joined(
                with_graph.detach(), share, len(texts), lambda part: _backward(with_graph, part)
            )
        states, pieces = (
            [],
            [torch.empty(0, self.dual_encoder.dim, device=self._accelerator.device)],
        )
        with torch.no_grad():
            for features in batches:
                states.append(_random_state(self._accelerator.device))
                pieces.append(self._finished(tower, finish, features))

        def backward(gradient: torch.Tensor) -> None:
            after = _random_state(self._accelerator.device)
            # Without texts, as where processes outnumber them, there would still be one part.
            parts = torch.split(gradient, size) if batches else ()
            for features, state, part in zip(batches, states, parts, strict=True):
                # The same units drop out as in the first pass.
                _restore_random_state(self._accelerator.device, state)
                _backward(self._finished(tower, finish, features), part)
            _restore_random_state(self._accelerator.device, after)

        return self._joined(torch.cat(pieces), share, len(texts), backward)

    def _joined(
        self,
        own: torch.Tensor,
        share: slice,
        total: int,
        backward: Callable[[torch.Tensor], object],
    ) -> Encoded:
        embeddings = self._gathered(own, total).requires_grad_()

        def carry_on() -> None:
            if embeddings.grad is not None:
                backward(embeddings.grad[share])

        return Encoded(embeddings, carry_on)

    def _finished(self, tower: Tower, finish: Finish, features: Features) -> torch.Tensor:
        with self._accelerator.autocast():
            return finish(tower(features)).float()

    def _features(self, tower: Tower, texts: list[str]) -> Features:
        features = tower.tokenise(texts)
        return {name: value.to(self._accelerator.device) for name, value in features.items()}

    def _share(self, total: int) -> slice:
        """What this process encodes of `total` texts."""
        each = -(-total // self._accelerator.num_processes)
        first = min(total, each * self._accelerator.process_index)
        return slice(first, min(total, first + each))

    def _gathered(self, own: torch.Tensor, total: int) -> torch.Tensor:
        if self._accelerator.num_processes == 1:
            return own
        each = -(-total // self._accelerator.num_processes)
        padded = own.new_zeros(each, own.shape[1])
        padded[: len(own)] = own
        gathered: torch.Tensor = self._accelerator.gather(padded)
        return gathered[:total]


def _cut(embeddings: torch.Tensor, *, counts: bool) -> Encoded:
    leaf = embeddings.detach().requires_grad_()

    def backward() -> None:
        if counts and leaf.grad is not None:
            _backward(embeddings, leaf.grad)

    return Encoded(leaf, backward)


def _backward(embeddings: torch.Tensor, gradient: torch.Tensor) -> None:
    if embeddings.requires_grad:  # else all that it comes from is frozen
        torch.autograd.backward(embeddings, gradient)


def _as_is(outputs: torch.Tensor) -> torch.Tensor:
    return outputs


def _random_state(device: torch.device) -> list[torch.Tensor]:
    state = [torch.get_rng_state()]
    return [*state, torch.cuda.get_rng_state(device)] if device.type == "cuda" else state


def _restore_random_state(device: torch.device, state: list[torch.Tensor]) -> None:
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)
