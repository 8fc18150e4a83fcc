"""The gradient of a step is that of eq. 5 by plain autograd."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss
from torch.nn import functional

from swiftlet.progress import Silence
from tests.checkpoints import WORDS
from tests.runs import ListedPassages, gradients, plain_accelerator, tower
from tests.samplers import made, sampler_inputs
from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.false_negatives import FalseNegatives, may_be_relevant
from training.contrastive.step import CandidateSource, ContrastiveStep, StepResult
from training.data.positives import KnownPositives
from training.loop.embedding_cache import EmbeddingCache
from training.model.dual_encoder import DualEncoder
from training.objective.contrastive import Scale, SoftmaxLoss
from training.objective.negatives.cache import NegativeCache
from training.objective.negatives.sampler import (
    NO_ROW,
    MixedSampler,
    NegativeSampler,
    QueryBatch,
    Rows,
)
from training.objective.negatives.simple import InBatchSampler, UniformSampler

PASSAGES = [" ".join(WORDS[i : i + 2 + i % 5]) for i in range(20)]
QUERIES = [WORDS[i] for i in range(10)]
# Query 4 has two relevant passages, and passage 4 is relevant to two queries.
KNOWN = KnownPositives([[0], [1], [2], [3], [4, 12], [4], [6], [7], [8], [9]])
PAIRS = np.array([[0, 0], [4, 4], [5, 4], [7, 7], [2, 2], [9, 9], [4, 12]])
TEXTS = sampler_inputs(KNOWN, queries=QUERIES, passages=ListedPassages(PASSAGES))


def make(
    checkpoints: dict[str, Path], micro_batch_size: int = 100, frozen: EmbeddingCache | None = None
) -> BatchEncoder:
    torch.manual_seed(3)
    dual_encoder = DualEncoder(
        tower(checkpoints["roberta"]), tower(checkpoints["bert"]), projection="shared", dim=16
    ).train()
    return BatchEncoder(
        dual_encoder,
        plain_accelerator(),
        micro_batch_size=micro_batch_size,
        embedding_cache=frozen,
    )


@pytest.fixture
def encoder(checkpoints) -> BatchEncoder:
    return make(checkpoints)


def uniform() -> UniformSampler:
    return made(UniformSampler, KNOWN, len(PASSAGES), settings={"per_query": 3}, seed=5)


def mixed() -> MixedSampler:
    return MixedSampler([made(InBatchSampler, KNOWN), uniform()])


def cache(encoder: BatchEncoder) -> MixedSampler:
    """A cache of embeddings that the encoders have since left behind, and in-batch negatives."""
    settings = {"per_query": 3, "refresh_fraction": 0.0, "gradient": "cached"}
    kept = made(NegativeCache, KNOWN, len(PASSAGES), settings=settings, seed=5, width=16)
    kept.prepare(lambda rows: encoder.passages(TEXTS.passages, rows))
    with torch.no_grad():
        for parameter in encoder.dual_encoder.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return MixedSampler([kept, made(InBatchSampler, KNOWN)])


def step(
    encoder: BatchEncoder,
    sampler: NegativeSampler,
    pairs: NDArray[np.int64] = PAIRS,
    **settings: Any,
) -> tuple[StepResult, dict[str, torch.Tensor]]:
    encoder.dual_encoder.zero_grad()
    source = CandidateSource(TEXTS, sampler, **settings)
    result = ContrastiveStep(encoder, source, SoftmaxLoss(Scale()))(pairs)
    return result, gradients(encoder.dual_encoder)


def reference(
    encoder: BatchEncoder,
    negatives: Sequence[Sequence[int]],
    constants: dict[int, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Eq. 5, query by query and text by text."""
    dual_encoder = encoder.dual_encoder
    dual_encoder.zero_grad()

    def document(row: int) -> torch.Tensor:
        if constants is not None and row in constants:
            return constants[row]
        tower = dual_encoder.document_tower
        return dual_encoder.project_documents(tower(tower.tokenise([PASSAGES[row]]))).squeeze(0)

    losses = []
    for (number, positive), rows in zip(PAIRS.tolist(), negatives, strict=True):
        features = dual_encoder.query_tower.tokenise([QUERIES[number]])
        query = dual_encoder.project_queries(dual_encoder.query_tower(features)).squeeze(0)
        documents = torch.stack([document(positive), *map(document, rows)])
        losses.append(-functional.log_softmax(20 * documents @ query, dim=0)[0])
    loss = torch.stack(losses).mean()
    loss.backward()
    return loss.detach(), gradients(dual_encoder)


def drawn_by(encoder: BatchEncoder, sampler: NegativeSampler) -> Rows:
    queries = encoder.queries([QUERIES[number] for number in PAIRS[:, 0]])
    return sampler.draw(QueryBatch(PAIRS[:, 0], PAIRS[:, 1], queries))


def lines(drawn: Rows) -> list[list[int]]:
    return [[row for row in line if row != NO_ROW] for line in drawn.tolist()]


def assert_same(
    found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float = 1e-5
) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=tolerance, rtol=1e-3, msg=name)


@pytest.mark.parametrize("micro_batch_size", [1, 5, 100])
def test_the_gradient_is_that_of_a_plain_pass_for_every_micro_batch_size(
    micro_batch_size, checkpoints
):
    encoder = make(checkpoints, micro_batch_size)
    result, found = step(encoder, mixed())
    negatives = lines(drawn_by(encoder, mixed()))
    loss, expected = reference(encoder, negatives)
    assert result.loss == pytest.approx(loss.item(), rel=1e-5)
    bound = np.mean([np.log(1 + len(line)) for line in negatives])
    assert result.collapsed_loss == pytest.approx(bound, rel=1e-5)
    assert_same(found, expected)
    assert len(found) == len(list(encoder.dual_encoder.parameters()))


def test_loss_and_gradient_are_those_of_gradient_caching_in_sentence_transformers(checkpoints):
    both = tower(checkpoints["bert"])
    pairs = np.array([[0, 0], [7, 7], [2, 2], [9, 9], [6, 6]])
    encoder = BatchEncoder(
        DualEncoder(both, both, projection="none"), plain_accelerator(), micro_batch_size=2
    )
    result, _ = step(encoder, made(InBatchSampler, KNOWN), pairs)
    found = gradients(both)
    both.zero_grad()
    model = both.with_projection(None)
    theirs = CachedMultipleNegativesRankingLoss(model, scale=20.0, mini_batch_size=2)
    texts = [QUERIES[number] for number in pairs[:, 0]], [PASSAGES[row] for row in pairs[:, 1]]
    loss = theirs([model.preprocess(each) for each in texts], torch.empty(0))
    loss.backward()
    assert result.loss == pytest.approx(loss.item(), rel=1e-5)
    assert_same(found, gradients(both))


def test_a_passage_that_the_untrained_document_model_finds_relevant_is_no_negative(
    encoder, tmp_path
):
    outputs = EmbeddingCache(tmp_path, "untrained", encoder.dual_encoder.document_tower.width)
    false_negatives = FalseNegatives(0.9, QUERIES, TEXTS.passages, encoder, outputs, Silence())
    before = [encoder.as_queries(each) for each in (QUERIES, PASSAGES)]
    scores = functional.cosine_similarity(before[0][:, None], before[1], dim=-1)
    with torch.no_grad():
        for parameter in encoder.dual_encoder.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    drawn = lines(drawn_by(encoder, mixed()))
    scores -= scores.mean(1, keepdim=True)  # a share of the way from the mean
    left = [
        [row for row in line if scores[number, row] <= 0.9 * scores[number, positive]]
        for (number, positive), line in zip(PAIRS.tolist(), drawn, strict=True)
    ]
    assert 0 < sum(map(len, left)) < sum(map(len, drawn))
    result, found = step(encoder, mixed(), false_negatives=false_negatives)
    loss, expected = reference(encoder, left)
    assert result.loss == pytest.approx(loss.item(), rel=1e-5)
    assert_same(found, expected)


def test_what_may_be_relevant_does_not_depend_on_the_range_of_a_model_s_cosines():
    scores, positive = 2 * torch.rand(9, 50) - 1, torch.rand(9, 1)
    found = may_be_relevant(scores, positive, scores.mean(1, keepdim=True), 0.95)
    narrow, high = 0.8 + 0.1 * scores, 0.8 + 0.1 * positive
    assert torch.equal(found, may_be_relevant(narrow, high, narrow.mean(1, keepdim=True), 0.95))
    assert 0 < found.sum() < found.numel()


def test_shared_negatives_count_for_every_query_that_they_are_not_relevant_to(checkpoints):
    encoder = make(checkpoints, 4)
    result, found = step(encoder, uniform(), shared=True)
    drawn = {row for line in lines(drawn_by(encoder, uniform())) for row in line}
    negatives = [sorted(drawn - set(KNOWN.of(number).tolist())) for number in PAIRS[:, 0]]
    assert len(drawn) > 3
    loss, expected = reference(encoder, negatives)
    assert result.loss == pytest.approx(loss.item(), rel=1e-5)
    assert_same(found, expected)


def test_cached_negatives_are_constants(checkpoints):
    encoder = make(checkpoints, 3)
    sampler = cache(encoder)
    state = sampler.state()
    drawn = drawn_by(encoder, sampler)
    sampler.restore(state)
    encoded = set(PAIRS[:, 1].tolist())
    rows = np.array(sorted(set(drawn[drawn != NO_ROW].tolist()) - encoded))
    assert len(rows) > 3
    kept = sampler.cached(rows)
    assert kept is not None
    constants = dict(zip(rows.tolist(), kept, strict=True))
    result, found = step(encoder, sampler, re_encodes=False)
    loss, expected = reference(encoder, lines(drawn), constants)
    assert result.loss == pytest.approx(loss.item(), rel=1e-5)
    assert_same(found, expected)


def test_one_re_encoded_negative_a_query_has_the_gradient_of_all_on_average(encoder):
    sampler = cache(encoder)
    everything = np.arange(len(PASSAGES))
    sampler.update(everything, encoder.passages(TEXTS.passages, everything))
    state = sampler.state()
    negatives = lines(drawn_by(encoder, sampler))
    found = []
    for _ in range(40):
        sampler.restore(state)
        result, gradient = step(encoder, sampler, re_encodes=True)
        found.append(torch.cat([each.flatten() for each in gradient.values()]))
    loss, expected = reference(encoder, negatives)
    assert result.loss == pytest.approx(loss.item(), rel=1e-4)
    assert gradient.keys() == expected.keys()
    of_queries = {name: each for name, each in gradient.items() if name.startswith("query_tower")}
    assert_same(of_queries, {name: expected[name] for name in of_queries})  # in each step
    wanted = torch.cat([each.flatten() for each in expected.values()])
    deviation, mean = torch.std_mean(torch.stack(found), dim=0)
    assert deviation.norm() > 0.1 * wanted.norm()
    error = deviation.norm() / len(found) ** 0.5
    assert (mean - wanted).norm() < 2 * error


@pytest.mark.parametrize("re_encodes", [False, True])
def test_only_what_a_step_encodes_updates_the_cache(re_encodes, encoder):
    sampler = cache(encoder)
    rows = np.arange(len(PASSAGES))
    before, fresh = sampler.cached(rows), encoder.passages(TEXTS.passages, rows)
    step(encoder, sampler, re_encodes=re_encodes)
    after = sampler.cached(rows)
    assert before is not None
    assert after is not None
    updated = (after != before).any(1).numpy()
    torch.testing.assert_close(after[updated], fresh[updated], atol=1e-5, rtol=0)
    positives = set(PAIRS[:, 1].tolist())
    assert positives <= set(rows[updated].tolist())
    others = updated.sum() - len(positives)
    assert 0 < others <= len(PAIRS) if re_encodes else others == 0


def test_negatives_that_no_cache_keeps_have_a_gradient(encoder):
    _, expected = step(encoder, mixed(), re_encodes=True)
    _, found = step(encoder, mixed(), re_encodes=False)
    assert_same(found, expected)


def test_alignment_with_cached_outputs_is_the_same_as_without(checkpoints, tmp_path):
    found = []
    for frozen in (None, EmbeddingCache(tmp_path, "weights", 32)):
        encoder = make(checkpoints, 3, frozen)
        encoder.dual_encoder.train_only(frozenset({"query_encoder", "projection"}))
        found.append(step(encoder, mixed()))
    (result, expected), (known_result, known) = found
    assert known_result.loss == pytest.approx(result.loss, rel=1e-5)
    assert_same(known, expected)
    assert not any(name.startswith("document_tower") for name in known)


def test_a_batch_with_one_shared_document_learns_from_other_negatives(encoder):
    pairs = np.array([[4, 4], [5, 4]])
    result, _ = step(encoder, made(InBatchSampler, KNOWN), pairs)
    assert (result.loss, result.collapsed_loss) == (0, 0)
    result, _ = step(encoder, mixed(), pairs)
    assert result.loss > 0
