"""Micro-batches (GradCache) change neither embeddings nor gradients nor dropout."""

from pathlib import Path

import pytest
import torch

from tests.runs import gradients, plain_accelerator, tower
from training.contrastive.batch_encoder import BatchEncoder
from training.model.dual_encoder import DualEncoder

TEXTS = ["kalo mine " * count + "pura" for count in (5, 1, 9, 3, 2, 7, 4)]


def make(checkpoints: dict[str, Path], micro_batch_size: int, dropout: float = 0.0) -> BatchEncoder:
    torch.manual_seed(3)
    dual_encoder = DualEncoder(
        tower(checkpoints["roberta"], dropout=dropout), tower(checkpoints["bert"], dropout=dropout)
    )
    dual_encoder.train()
    return BatchEncoder(dual_encoder, plain_accelerator(), micro_batch_size=micro_batch_size)


def queries_of(pair: DualEncoder, texts: list[str]) -> torch.Tensor:
    return pair.project_queries(pair.query_tower(pair.query_tower.tokenise(texts)))


def test_encoding_without_gradient_has_no_dropout_and_restores_the_training_mode(checkpoints):
    encoder = make(checkpoints, 3, dropout=0.5)
    plain = make(checkpoints, 3, dropout=0.0)
    torch.testing.assert_close(encoder.documents(TEXTS), plain.documents(TEXTS))
    assert encoder.dual_encoder.document_tower.training
    assert encoder.dual_encoder.query_tower.training


@pytest.mark.parametrize("micro_batch_size", [1, 2, 7])
def test_dropout_is_the_same_in_both_passes(micro_batch_size, checkpoints):
    encoder = make(checkpoints, micro_batch_size, dropout=0.3)
    dual_encoder = encoder.dual_encoder
    direction = torch.randn(len(TEXTS), dual_encoder.dim)
    torch.manual_seed(11)
    encoded = encoder.queries_with_gradient(TEXTS)
    after_first = torch.get_rng_state()
    (encoded.embeddings * direction).sum().backward()
    encoded.backward()
    assert torch.equal(torch.get_rng_state(), after_first)
    found = gradients(dual_encoder)
    dual_encoder.zero_grad()
    torch.manual_seed(11)
    batches = [
        TEXTS[start : start + micro_batch_size] for start in range(0, len(TEXTS), micro_batch_size)
    ]
    embeddings = torch.cat([queries_of(dual_encoder, batch) for batch in batches])
    torch.testing.assert_close(encoded.embeddings.detach(), embeddings.detach())
    (embeddings * direction).sum().backward()
    expected = gradients(dual_encoder)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-4)


def test_embeddings_that_no_loss_used_leave_no_gradient(checkpoints):
    encoder = make(checkpoints, 2)
    encoder.queries_with_gradient(TEXTS).backward()
    assert not gradients(encoder.dual_encoder)
