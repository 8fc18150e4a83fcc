"""The dual encoder, and the encoders that it saves."""

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from swiftlet.errors import InvalidArgumentError
from tests.runs import tower
from training.model.dual_encoder import DualEncoder
from training.model.quiet import quiet

TEXTS = ["kalo", "mine pura soti", "kalo " * 30, "tira, (lomi) 12"]


def pair(query_model: Path, document_model: Path, **settings: object) -> DualEncoder:
    torch.manual_seed(3)
    return DualEncoder(tower(query_model), tower(document_model), **settings).eval()


def queries_of(pair: DualEncoder) -> torch.Tensor:
    return pair.project_queries(pair.query_tower(pair.query_tower.tokenise(TEXTS)))


def part_sizes(dual_encoder: DualEncoder) -> dict[str, int]:
    return {name: sum(p.numel() for p in found) for name, found in dual_encoder.parts()}


def test_one_projection_serves_both_towers(checkpoints):
    dual_encoder = pair(checkpoints["roberta"], checkpoints["bert"], dim=16)
    assert dual_encoder.query_projection is dual_encoder.document_projection
    assert dual_encoder.adapter is None
    assert part_sizes(dual_encoder)["projection"] == 32 * 16 + 16
    with torch.no_grad():
        queries = queries_of(dual_encoder)
        outputs = dual_encoder.query_tower(dual_encoder.query_tower.tokenise(TEXTS))
        projection = dual_encoder.document_projection
        assert projection is not None
        expected = outputs @ projection.weight.T + projection.bias
    torch.testing.assert_close(queries, expected / expected.norm(dim=1, keepdim=True))


def test_a_narrower_query_tower_is_widened_before_the_shared_projection(checkpoints, narrow):
    dual_encoder = pair(narrow, checkpoints["bert"], dim=16)
    assert isinstance(dual_encoder.adapter, nn.Linear)
    assert part_sizes(dual_encoder)["projection"] == 32 * 16 + 16
    own = sum(each.numel() for each in dual_encoder.query_tower.parameters())
    assert part_sizes(dual_encoder)["query_encoder"] == own + 24 * 32 + 32
    wider = pair(checkpoints["bert"], narrow)
    assert wider.dim == 24
    assert queries_of(wider).shape == (4, 24)


def test_separate_projections_take_towers_of_any_width(checkpoints, narrow):
    dual_encoder = pair(narrow, checkpoints["bert"], projection="separate", dim=16)
    assert part_sizes(dual_encoder)["projection"] == (24 * 16 + 16) + (32 * 16 + 16)


def test_without_a_projection_widths_and_dim_must_be_equal(checkpoints, narrow):
    assert part_sizes(pair(narrow, narrow, projection="none"))["projection"] == 0
    with pytest.raises(InvalidArgumentError, match="24 wide and the document tower 32: without a"):
        pair(narrow, checkpoints["bert"], projection="none")
    with pytest.raises(
        InvalidArgumentError,
        match="dim is 16, but without a projection it is the width of the encoders, 24",
    ):
        pair(narrow, narrow, projection="none", dim=16)


@pytest.mark.parametrize(
    ("projection", "same_width"),
    [("shared", True), ("shared", False), ("separate", True), ("separate", False), ("none", True)],
)
def test_saved_encoders_compute_the_same(projection, same_width, checkpoints, narrow, tmp_path):
    query_model = checkpoints["roberta"] if same_width else narrow
    dual_encoder = pair(query_model, checkpoints["bert"], projection=projection)
    dual_encoder.save(tmp_path)
    with torch.no_grad():
        queries = queries_of(dual_encoder)
        documents = dual_encoder.project_documents(
            dual_encoder.document_tower(dual_encoder.document_tower.tokenise(TEXTS))
        )
    for name, expected in (("query_encoder", queries), ("document_encoder", documents)):
        with quiet():
            model = SentenceTransformer(str(tmp_path / name), device="cpu")
            found = model.encode(TEXTS, convert_to_tensor=True, show_progress_bar=False)
        torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


def test_frozen_parts_have_no_gradient_and_no_dropout(checkpoints):
    dual_encoder = pair(checkpoints["roberta"], checkpoints["bert"])
    for parameter in dual_encoder.parameters():
        parameter.grad = torch.ones_like(parameter)
    dual_encoder.train_only(frozenset({"query_encoder"}))
    for name, parameters in dual_encoder.parts():
        learns = name == "query_encoder"
        assert all(p.requires_grad == learns == (p.grad is not None) for p in parameters)
    assert dual_encoder.query_tower.training
    assert not dual_encoder.document_tower.training
    dual_encoder.train_only(frozenset({"query_encoder", "document_encoder", "projection"}))
    assert all(parameter.requires_grad for parameter in dual_encoder.parameters())
    assert dual_encoder.document_tower.training


def test_one_tower_for_both_is_trained_and_saved_once(checkpoints, tmp_path):
    both = tower(checkpoints["bert"])
    dual_encoder = DualEncoder(both, both, dim=16)
    sizes = part_sizes(dual_encoder)
    assert sizes["query_encoder"] == 0
    assert sizes["document_encoder"] == sum(p.numel() for p in both.parameters())
    dual_encoder.save(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["document_encoder"]
