"""An alignment in closed form comes before the stages of DAFT."""

import json

import pytest
import torch

from export.source import load_source
from tests.runs import ListedPassages, Listener, plain_accelerator, records, run, tower
from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.closed_form import align, fitted_on
from training.errors import TrainingDataError
from training.inputs import make_dual_encoder
from training.model.dual_encoder import DualEncoder
from training.train import train

WORDS = ["kalo", "mine", "pura", "soti", "kami", "tira", "lomi"]
TEXTS = [f"{a} {b} {c}" for a in WORDS for b in WORDS for c in WORDS if len({a, b, c}) == 3]
CLOSED = {"start": "ridge", "texts": "both", "max_steps": 0}


@pytest.mark.parametrize(
    ("query", "settings"),
    [
        ("bert", {"projection": "none"}),
        ("narrow", {"projection": "none"}),
        ("narrow", {"dim": 16}),
        ("narrow", {"projection": "separate", "dim": 16}),
    ],
    ids=str,
)
def test_queries_are_mapped_to_the_embeddings_of_the_document_encoder(
    checkpoints, narrow, query, settings
):
    torch.manual_seed(0)
    models = tower(narrow if query == "narrow" else checkpoints["roberta"]), checkpoints["bert"]
    dual = DualEncoder(models[0], tower(models[1]), maps_queries=True, **settings).eval()
    encoder = BatchEncoder(dual, plain_accelerator(), micro_batch_size=32)
    fit = align(encoder, TEXTS)
    found, wanted = encoder.queries(TEXTS), encoder.documents(TEXTS)
    centred = [each - each.mean(0) for each in (found, wanted)]
    cosines = torch.nn.functional.cosine_similarity(*centred)
    assert cosines.mean() > 0.8
    assert fit.cosine > fit.cosine_before
    assert "projection" not in {name for name, each in dual.parts() if dual.adapter in each}


def test_a_run_with_it_trains_and_can_be_exported(make, narrow, tmp_path):
    listener = Listener()
    recipe = make(
        query_encoder={"model": str(narrow), "pooling": "mean"},
        dual_encoder={"projection": "none"},
        alignment=CLOSED,
        fine_tuning={"epochs": 0.5, "average": 0.3},
    )
    outcome = train(recipe, tmp_path / "run", progress=listener)
    (record,) = records(tmp_path / "run", "closed form")
    assert outcome.ndcg_before == record["ndcg@10"]
    assert record["cosine"] > record["cosine_before"]
    assert any("fewer than the dimensions" in each for each in listener.notes) == record["is_small"]
    stages = [each["stage"] for each in records(tmp_path / "run", "evaluation")]
    assert stages == ["alignment", "fine-tuning", "fine-tuning"]
    assert load_source(tmp_path / "run" / "query_encoder").dim == 32


def test_a_resumed_run_ends_as_one_that_was_not_interrupted(make, tmp_path):
    recipe = make(alignment=CLOSED, fine_tuning={"epochs": 0.5})
    run(recipe, tmp_path / "whole")
    whole = records(tmp_path / "whole")

    class Interrupted(Listener):
        def begin(self, name: str, total: int | None, done: int = 0) -> None:
            if "fine-tuning" in name:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", progress=Interrupted())
    run(recipe, tmp_path / "run", resume=True)
    assert json.dumps(records(tmp_path / "run")) == json.dumps(whole)


def test_too_few_texts_are_refused_in_a_sentence():
    passages = ListedPassages(["kalo mine", "pura soti"])
    with pytest.raises(TrainingDataError, match=r"is fitted to 4 distinct texts, at least 20 are"):
        fitted_on(["kalo", "mine"], passages, "both", 0)
    assert len(fitted_on(TEXTS * 2, passages, "queries", 0)) == len(TEXTS)


def test_a_pair_that_is_mapped_already_begins_with_the_identity(make):
    with_it, without = (make_dual_encoder(make(alignment=each)) for each in (CLOSED, {}))
    assert without.adapter is None
    assert with_it.adapter is not None
    assert torch.equal(with_it.adapter.weight, torch.eye(32))
