"""Batches have texts of similar length, and an epoch has each text once."""

import numpy as np

from training.distillation.batches import length_bucketed_batches, token_counts
from training.model.towers import Tower, TowerSettings

LENGTHS = np.random.default_rng(0).integers(1, 200, 10_000)


def test_an_epoch_has_each_text_once_but_for_the_few_that_fill_no_batch():
    batches = length_bucketed_batches(LENGTHS, 96, np.random.default_rng(1))
    assert batches.shape == (10_000 // 96, 96)
    assert len(np.unique(batches)) == batches.size


def test_little_of_a_batch_is_padding():
    batches = length_bucketed_batches(LENGTHS, 32, np.random.default_rng(1))
    longest = LENGTHS[batches].max(axis=1, keepdims=True)
    bucketed = 1 - LENGTHS[batches].sum() / (longest * 32).sum()
    shuffled = np.random.default_rng(2).permutation(10_000)[: batches.size].reshape(-1, 32)
    longest = LENGTHS[shuffled].max(axis=1, keepdims=True)
    assert bucketed < 0.05
    assert 1 - LENGTHS[shuffled].sum() / (longest * 32).sum() > 0.4


def test_long_and_short_batches_come_in_no_order():
    batches = length_bucketed_batches(LENGTHS, 32, np.random.default_rng(1))
    means = LENGTHS[batches].mean(axis=1)
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.2


def test_each_epoch_has_other_batches_and_each_seed_the_same():
    first, again, other = (
        length_bucketed_batches(LENGTHS, 64, np.random.default_rng([3, epoch]))
        for epoch in (0, 0, 1)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_length_is_counted_in_tokens_as_the_model_reads_them(checkpoints):
    tower = Tower.load(TowerSettings(model=checkpoints["bert"], pooling="mean", max_tokens=8))
    texts = ["", "kalo", "kalo mine pura", "kalo " * 30] * 400
    assert token_counts(tower, texts).tolist() == [2, 3, 5, 8] * 400
