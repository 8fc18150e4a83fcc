"""Encoders that share their token embeddings, or keep them."""

from pathlib import Path

import pytest
import torch

from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import InvalidArgumentError
from tests.runs import tower
from training.companions.sharing import Sharing, share, share_token_embeddings
from training.model.dual_encoder import DualEncoder
from training.model.towers import Tower, TowerSettings


def pair(query_model: Path, document_model: Path, sharing: str) -> DualEncoder:
    towers = tower(query_model), tower(document_model)
    share(Sharing(sharing=sharing), *towers)
    return DualEncoder(*towers)


def test_shared_token_embeddings_are_trained_with_the_document_encoder(checkpoints, tmp_path):
    dual_encoder = pair(checkpoints["bert"], checkpoints["bert"], "token_embeddings")
    weight = dual_encoder.document_tower.token_embeddings.weight
    assert dual_encoder.query_tower.token_embeddings.weight is weight
    parts = dict(dual_encoder.parts())
    assert any(parameter is weight for parameter in parts["document_encoder"])
    assert not any(parameter is weight for parameter in parts["query_encoder"])
    dual_encoder.train_only(frozenset({"query_encoder"}))
    assert not weight.requires_grad
    dual_encoder.save(tmp_path)
    for name in ("query_encoder", "document_encoder"):
        assert torch.equal(tower(tmp_path / name).token_embeddings.weight, weight)


def test_frozen_token_embeddings_are_never_trained(checkpoints):
    dual_encoder = pair(checkpoints["roberta"], checkpoints["bert"], "frozen_token_embeddings")
    dual_encoder.train_only(frozenset({"query_encoder", "document_encoder", "projection"}))
    towers = dual_encoder.query_tower, dual_encoder.document_tower
    weights = [tower.token_embeddings.weight for tower in towers]
    assert [weight.requires_grad for weight in weights] == [False, False]
    trained = [parameter for _, parameters in dual_encoder.parts() for parameter in parameters]
    assert len(trained) == len(list(dual_encoder.parameters())) - 2


def test_token_embeddings_of_another_vocabulary_or_width_cannot_be_shared(checkpoints, narrow):
    differing = {
        checkpoints["roberta"]: r"[\d,]+ and [\d,]+ tokens: set dual_encoder.sharing to 'none'",
        narrow: "24 and 32 numbers a token: set",
    }
    for other, problem in differing.items():
        with pytest.raises(InvalidArgumentError, match=f"since they have {problem}"):
            pair(other, checkpoints["bert"], "token_embeddings")
    with pytest.raises(InvalidArgumentError, match="a look-up encoder has token embeddings of its"):
        share_token_embeddings(
            Tower.load(TowerSettings(model=LOOKUP_QUERY_ENCODER)), tower(checkpoints["bert"])
        )
