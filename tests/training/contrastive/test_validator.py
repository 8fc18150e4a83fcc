"""The validator measures the same as a search."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.index.documents.passages import PassageSplitter
from tests.runs import plain_accelerator, tower, write_collection
from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.collapse import EmbeddingStatistics
from training.contrastive.validator import Validator
from training.data.sources import DataSource
from training.data.validation_set import ValidationSet, validation_from
from training.model.dual_encoder import DualEncoder
from training.model.loading import truncating_tokenizer
from training.objective.divergence import kl_estimate


@pytest.fixture(scope="module")
def encoder(checkpoints) -> BatchEncoder:
    torch.manual_seed(3)
    dual_encoder = DualEncoder(tower(checkpoints["roberta"]), tower(checkpoints["bert"]), dim=16)
    return BatchEncoder(dual_encoder, plain_accelerator(), micro_batch_size=8)


@pytest.fixture(scope="module")
def read(encoder, tmp_path_factory) -> Callable[..., ValidationSet]:
    """Reads 44 queries of documents of 14 words, with passages of so many tokens."""
    store = tmp_path_factory.mktemp("store")
    collection = write_collection(store / "words", num_words=14)

    def read_queries(tokens: int = 24, **settings: int) -> ValidationSet:
        tower = encoder.dual_encoder.document_tower
        backend = truncating_tokenizer(tower.encoder.tokenizer, tower.max_tokens)
        return validation_from(
            [DataSource(corpus=str(collection), qrels="train")],
            store,
            PassageSplitter(Tokenizer(backend), tokens, 0),
            **settings,
        )

    return read_queries


@pytest.mark.parametrize("tokens", [24, 10])
def test_a_document_has_the_score_of_its_best_passage(tokens, encoder, read):
    validation = read(tokens)
    assert (validation.passages.num_passages > 44) == (tokens == 10)
    queries = encoder.queries(validation.queries).numpy()
    passages = encoder.passages(validation.passages, validation.rows).numpy()
    owners = validation.passages.passage_to_document
    run = Validator(validation, sample=100).run(encoder)
    for query_id, scores in zip(validation.query_ids, queries @ passages.T, strict=True):
        best = {
            validation.passages.document_ids[document]: scores[owners == document].max()
            for document in range(44)
        }
        assert run[query_id] == pytest.approx(best, abs=1e-5)


def test_quality_depends_on_the_first_ranks(encoder, read):
    validation = read()
    validator = Validator(validation, sample=100)
    ranks = []
    for query_id, scores in validator.run(encoder).items():
        ordered = sorted(scores, key=scores.__getitem__, reverse=True)
        (relevant,) = validation.qrels[query_id]
        ranks.append(ordered.index(relevant) + 1)
    found = validator.quality(encoder)
    gains = [1 / np.log2(1 + rank) if rank <= 10 else 0 for rank in ranks]
    assert found["nDCG@10"] == pytest.approx(np.mean(gains), abs=1e-6)
    assert found["R@100"] == 1


def test_only_some_passages_may_be_searched(encoder, read):
    validation = read(num_queries=10, max_passages=15)
    run = Validator(validation, sample=100).run(encoder)
    assert len(run) == 10
    assert {len(documents) for documents in run.values()} == {15}
    assert all({*validation.qrels[query_id]} <= {*found} for query_id, found in run.items())


def test_alignment_and_spread_are_measured_on_a_sample(encoder, read):
    validation = read()
    validator = Validator(validation, sample=9)
    # Of all queries and passages, not of the first.
    chosen = np.linspace(0, 43, 9).astype(int)
    queries = [validation.queries[place] for place in chosen]
    assert validator.divergence(encoder) == pytest.approx(
        kl_estimate(encoder.documents(queries[::2]), encoder.queries(queries[1::2])), rel=1e-4
    )
    of_queries, of_passages = validator.embedding_statistics(encoder)
    assert of_queries.cosine == pytest.approx(
        EmbeddingStatistics.of(encoder.queries(queries)).cosine, rel=1e-4
    )
    expected = EmbeddingStatistics.of(encoder.passages(validation.passages, chosen))
    assert of_passages.effective_rank == pytest.approx(expected.effective_rank, rel=1e-4)


def test_equal_encoders_have_an_estimate_near_0(checkpoints, read):
    same = tower(checkpoints["bert"])
    encoder = BatchEncoder(
        DualEncoder(same, same, projection="none"), plain_accelerator(), micro_batch_size=8
    )
    estimate = Validator(read(), sample=44).divergence(encoder)
    assert abs(estimate) < 0.5 * encoder.dual_encoder.dim


def test_an_approximate_index_can_be_chosen(encoder, read):
    validation = read()
    exact = Validator(validation, 100).run(encoder)
    tuned = Validator(validation, 100, "IVF2,Flat").run(encoder)
    found = [len({*exact[query]} & {*tuned[query]}) for query in exact]
    assert np.mean(found) > 20
