"""The monitor detects collapsed embeddings, but not before training."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from training.contrastive.collapse import (
    Collapse,
    CollapseMetrics,
    CollapseMonitor,
    EmbeddingStatistics,
)

BOUND = math.log(65)


def figures(
    queries: EmbeddingStatistics, documents: EmbeddingStatistics, loss: float, ndcg: float = 0.5
) -> CollapseMetrics:
    return CollapseMetrics(queries, documents, loss, BOUND, ndcg)


SPREAD = EmbeddingStatistics(cosine=0.1, deviation=0.08, effective_rank=80.0)
CONSTANT = EmbeddingStatistics(cosine=0.999, deviation=0.001, effective_rank=1.1)
LINE = EmbeddingStatistics(cosine=0.3, deviation=0.02, effective_rank=2.1)


def test_one_vector_for_everything_has_cosine_1_rank_1_and_no_deviation():
    spread = EmbeddingStatistics.of(normalize(torch.ones(20, 8), dim=1))
    assert spread.cosine == pytest.approx(1)
    assert spread.deviation == pytest.approx(0, abs=1e-7)
    assert spread.effective_rank == pytest.approx(1, abs=1e-3)


def test_an_orthonormal_basis_has_cosine_0_and_full_rank():
    spread = EmbeddingStatistics.of(torch.eye(8))
    assert spread.cosine == pytest.approx(0)
    assert spread.effective_rank == pytest.approx(8)
    assert spread.deviation == pytest.approx(math.sqrt(7) / 8)


def test_the_mean_cosine_is_that_over_all_pairs():
    embeddings = normalize(torch.randn(30, 5, generator=torch.Generator().manual_seed(3)), dim=1)
    table = embeddings @ embeddings.T
    expected = (table.sum() - table.trace()) / (30 * 29)
    assert EmbeddingStatistics.of(embeddings).cosine == pytest.approx(float(expected), abs=1e-6)


def test_a_constant_at_the_loss_of_chance_is_a_complete_collapse():
    monitor = CollapseMonitor(Collapse())
    assert monitor.verdict(figures(CONSTANT, CONSTANT, 4.16)) == "complete"


def test_one_flat_tower_is_a_dimensional_collapse():
    assert CollapseMonitor(Collapse()).verdict(figures(LINE, SPREAD, 2.0)) == "dimensional"
    assert CollapseMonitor(Collapse()).verdict(figures(SPREAD, LINE, 2.0)) == "dimensional"


def test_only_towers_that_train_count():
    monitor = CollapseMonitor(Collapse(), trained=("query",))
    assert monitor.verdict(figures(SPREAD, LINE, 2.0)) == "none"
    assert monitor.verdict(figures(LINE, SPREAD, 2.0)) == "dimensional"
    assert monitor.verdict(figures(SPREAD, CONSTANT, 4.17)) == "none"
    assert monitor.verdict(figures(CONSTANT, SPREAD, 4.17)) == "complete"


def test_a_tower_that_was_flat_from_the_start_has_collapsed_only_when_it_is_half_as_wide():
    monitor = CollapseMonitor(Collapse())
    monitor.begin(figures(LINE, SPREAD, math.nan))
    assert monitor.verdict(figures(LINE, SPREAD, 2.0)) == "none"
    flatter = EmbeddingStatistics(cosine=0.3, deviation=0.02, effective_rank=1.04)
    assert monitor.verdict(figures(flatter, SPREAD, 2.0)) == "dimensional"
    assert monitor.verdict(figures(LINE, LINE, 2.0)) == "dimensional"
    resumed = CollapseMonitor(Collapse(), first_ranks=monitor.first_ranks)
    assert resumed.verdict(figures(LINE, SPREAD, 2.0)) == "none"


FLATTENED = EmbeddingStatistics(cosine=0.99, deviation=0.01, effective_rank=9.0)


def begun(ndcg: float) -> CollapseMonitor:
    monitor = CollapseMonitor(Collapse())
    monitor.begin(figures(SPREAD, SPREAD, math.nan, ndcg))
    return monitor


def test_one_tower_alone_collapses_completely():
    assert begun(0.5).verdict(figures(SPREAD, FLATTENED, 4.0, 0.4)) == "complete"
    always = CollapseMonitor(Collapse())
    always.begin(figures(SPREAD, FLATTENED, math.nan, 0.5))  # as some good encoders begin
    assert always.verdict(figures(SPREAD, FLATTENED, 4.0, 0.4)) == "none"


def test_a_tenth_of_the_rank_is_a_dimensional_collapse():
    ranks = [EmbeddingStatistics(cosine=0.3, deviation=0.05, effective_rank=r) for r in (7.9, 8.1)]
    verdicts = [begun(0.5).verdict(figures(SPREAD, each, 2.0, 0.4)) for each in ranks]
    assert verdicts == ["dimensional", "none"]


def test_a_pair_that_never_retrieved_has_collapsed_if_it_only_loses_dimensions():
    half = EmbeddingStatistics(cosine=0.7, deviation=0.05, effective_rank=20.0)
    assert begun(0.002).verdict(figures(SPREAD, half, 4.9, 0.008)) == "retrieval"
    assert begun(0.002).verdict(figures(SPREAD, half, 2.0, 0.008)) == "none"
    assert begun(0.002).verdict(figures(SPREAD, SPREAD, 4.9, 0.008)) == "none"


def test_a_flattened_pair_that_finds_more_than_before_may_still_recover():
    monitor = begun(0.002)
    assert not monitor.has_collapsed(figures(SPREAD, FLATTENED, 4.3, 0.014))
    assert not monitor.has_collapsed(figures(SPREAD, FLATTENED, 4.3, 0.043))
    assert not monitor.has_collapsed(figures(SPREAD, FLATTENED, 4.3, 0.044))
    assert monitor.has_collapsed(figures(SPREAD, FLATTENED, 4.3, 0.045))


def test_spread_embeddings_with_the_loss_of_chance_have_not_collapsed():
    assert CollapseMonitor(Collapse()).verdict(figures(SPREAD, SPREAD, 4.17)) == "none"


@pytest.mark.parametrize(
    ("start", "now", "verdict"),
    [(0.84, 0.067, "retrieval"), (0.84, 0.43, "none"), (0.09, 0.001, "none")],
)
def test_a_run_that_has_lost_most_of_its_retrieval_has_collapsed(start, now, verdict):
    monitor = CollapseMonitor(Collapse())
    monitor.begin(figures(SPREAD, SPREAD, math.nan, start))
    assert monitor.verdict(figures(SPREAD, SPREAD, 2.0, now)) == verdict
    assert f"nDCG@10 {now:.3f}" in str(figures(SPREAD, SPREAD, 2.0, now))


def test_only_a_collapse_that_lasts_ends_a_run():
    monitor = CollapseMonitor(Collapse(patience=2))
    collapsed, fine = figures(CONSTANT, CONSTANT, 4.17), figures(SPREAD, SPREAD, 2.0)
    seen = [monitor.has_collapsed(each) for each in (collapsed, fine, collapsed, collapsed)]
    assert seen == [False, False, False, True]


def test_the_figures_name_everything_that_is_needed_to_judge_them():
    text = str(figures(CONSTANT, LINE, 4.1))
    for part in ("4.100", "4.174", "0.999", "0.300", "1.1", "2.1"):
        assert part in text
