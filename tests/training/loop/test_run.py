"""Whole runs: the trained parts, the logs and the results of each stage."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import swiftlet
from export.encoder_directory import export_encoder
from tests.runs import Listener, records, run
from training.contrastive import collapse
from training.inputs import make_dual_encoder
from training.loop.checkpoints import read_checkpoint
from training.recipes.registry import SAMPLERS as REGISTERED
from training.recipes.settings import Recipe
from training.train import train

Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def daft(make) -> Recipe:
    return make(keep_stages=True)


@pytest.fixture(scope="module")
def aligned(daft, tmp_path_factory) -> Path:
    """A finished run of DAFT; read only."""
    out = tmp_path_factory.mktemp("aligned") / "run"
    run(daft, out)
    return out


def start(recipe: Recipe) -> Weights:
    torch.manual_seed(recipe.seed)
    return make_dual_encoder(recipe).state_dict()


def stage_end(out: Path, stage: str) -> Weights:
    model: Weights = read_checkpoint(out / "stages" / stage)["model"]
    return model


def changed(before: Weights, after: Weights) -> set[str]:
    """The first names of what moved."""
    assert before.keys() == after.keys()
    moved = {name for name, value in before.items() if not torch.equal(value, after[name])}
    return {name.partition(".")[0] for name in moved}


def test_alignment_leaves_the_document_language_model_as_it_was_bit_for_bit(daft, aligned):
    after = stage_end(aligned, "alignment")
    assert changed(start(daft), after) == {
        "query_tower", "query_projection", "document_projection"
    }  # fmt: skip
    assert changed(after, stage_end(aligned, "fine-tuning")) == {
        "query_tower", "document_tower", "query_projection", "document_projection"
    }  # fmt: skip


def test_a_frozen_projection_stays_through_alignment_too(make, tmp_path):
    frozen = make(
        keep_stages=True,
        alignment={"max_epochs": 1, "train_projection": False},
        fine_tuning={"epochs": 1},
    )
    run(frozen, tmp_path / "run")
    assert changed(start(frozen), stage_end(tmp_path / "run", "alignment")) == {"query_tower"}


def test_alternating_moves_one_language_model_a_batch_and_the_query_encoder_first(make, tmp_path):
    found = []
    for num_steps in (1, 2, 3):
        settings = make(
            recipe="alternating",
            keep_stages=True,
            optimiser__schedule="constant",
            fine_tuning__epochs=num_steps / 4,
        )
        run(settings, tmp_path / f"{num_steps}")
        found.append(stage_end(tmp_path / f"{num_steps}", "alternating"))
    projections = {"query_projection", "document_projection"}
    assert changed(start(settings), found[0]) == {"query_tower"} | projections
    assert changed(found[0], found[1]) == {"document_tower"} | projections
    assert changed(found[1], found[2]) == {"query_tower"} | projections


@pytest.mark.parametrize(
    ("sharing", "encoders"),
    [
        ("token_embeddings", ["document_encoder", "query_encoder"]),
        ("frozen_token_embeddings", ["document_encoder", "query_encoder"]),
        ("all", ["document_encoder"]),
    ],
)
def test_what_is_shared_is_one_to_the_end(sharing, encoders, make, tmp_path):
    settings = make(
        query="bert",
        recipe="contrastive",
        dual_encoder__sharing=sharing,
        fine_tuning__epochs=0.5,
        keep_stages=True,
    )
    run(settings, tmp_path / "run")
    assert sorted(each.name for each in tmp_path.glob("run/*_encoder")) == encoders
    before, after = start(settings), stage_end(tmp_path / "run", "fine-tuning")
    moved = {name for name, value in before.items() if not torch.equal(value, after[name])}
    of_queries = {name for name in after if name.startswith("query_tower")}
    tokens = {name for name in of_queries if "word_embeddings" in name}
    shared = {"token_embeddings": tokens, "all": of_queries}.get(sharing, set())
    for name in shared:
        assert torch.equal(after[name], after[name.replace("query_tower", "document_tower")])
    assert (tokens <= moved) == (sharing != "frozen_token_embeddings")
    others = of_queries - shared - tokens
    assert all(
        not torch.equal(after[name], after[name.replace("query_tower", "document_tower")])
        for name in others & moved
    )


@pytest.mark.check
def test_a_run_learns_its_training_data(make, collection, tmp_path):
    settings = make(
        query="bert",
        recipe="contrastive",
        fine_tuning={"epochs": 30},
        optimiser__learning_rate=3e-3,
        # The training queries, since so few pairs are not enough for other queries.
        validation={
            "data": [{"corpus": str(collection), "qrels": "train"}],
            "queries": 44,
            "every": 40,
        },
    )
    outcome = run(settings, tmp_path / "run")
    evaluations = records(tmp_path / "run", "evaluation")
    assert evaluations[0]["ndcg@10"] < 0.6
    assert outcome.quality["nDCG@10"] > 0.9
    assert outcome.quality["nDCG@10"] == max(record["ndcg@10"] for record in evaluations)
    assert evaluations[-1]["loss"] < 0.2 * evaluations[-1]["collapsed_loss"]


def test_the_best_evaluation_is_the_one_that_is_kept(aligned):
    evaluations = records(aligned, "evaluation")
    chosen = [record for record in evaluations if record["stage"] == "fine-tuning"]
    best = max(chosen, key=lambda record: record["ndcg@10"])
    (end,) = records(aligned, "end")
    assert (end["stage"], end["step"], end["ndcg@10"]) == (
        "fine-tuning", best["step"], best["ndcg@10"]
    )  # fmt: skip
    assert end["final_ndcg@10"] == pytest.approx(best["ndcg@10"])


def test_every_evaluation_logs_the_values_for_the_figures_of_the_paper(aligned):
    evaluations = records(aligned, "evaluation")
    assert [(record["stage"], record["step"]) for record in evaluations] == [
        *(("alignment", step) for step in (0, 4, 8)), *(("fine-tuning", step) for step in (0, 4, 8))
    ]  # fmt: skip
    for record in evaluations:
        assert record["kl_per_dimension"] == pytest.approx(record["kl"] / 32)
        assert (record["kl_threshold"] is not None) == (record["stage"] == "alignment")
        assert record["epoch"] == record["step"] / 4
        assert 0 <= record["ndcg@10"] <= 1
        assert {"mrr@10", "r@100", "query_cosine", "document_deviation"} <= record.keys()
        if record["step"] == 0:
            assert record["loss"] is None
        else:
            # Four draws and up to seven other positives, of which some are drawn too.
            assert math.log(5) < record["collapsed_loss"] < math.log(12)
    steps = records(aligned, "step")
    assert [record["step"] for record in steps] == [4, 8, 4, 8]
    rates = [record["learning_rate"] for record in steps]
    assert rates == pytest.approx([5e-4, 0, 5e-4, 0])


def test_the_loss_of_an_evaluation_is_the_mean_of_the_steps_before_it(aligned):
    steps = records(aligned, "step")
    evaluations = [record for record in records(aligned, "evaluation") if record["step"]]
    for step, evaluation in zip(steps, evaluations, strict=True):
        assert step["loss"] == pytest.approx(evaluation["loss"])


def test_towers_that_are_aligned_from_the_start_skip_alignment(make, tmp_path):
    settings = make(alignment={"max_epochs": 9, "threshold": 10_000.0})
    listener = Listener()
    train(settings, tmp_path / "run", progress=listener)
    (stop,) = records(tmp_path / "run", "stop")
    assert (stop["stage"], stop["step"]) == ("alignment", 0)
    assert "is below δ = 10000.0" in stop["reason"]
    assert f"alignment ends at step 0: {stop['reason']}" in listener.notes
    assert [(name, total) for name, total, _ in listener.stages][-2:] == [
        ("Stage 1: alignment", 36), ("Stage 2: fine-tuning", 8)
    ]  # fmt: skip
    assert [record["stage"] for record in records(tmp_path / "run", "step")] == ["fine-tuning"] * 2


@pytest.mark.parametrize("counts_as_collapsed", [False, True])
@pytest.mark.check
def test_alignment_ends_when_the_estimate_is_below_the_threshold_unless_by_a_collapse(
    counts_as_collapsed, make, tmp_path, monkeypatch
):
    monkeypatch.setattr(collapse, "LEAST_GAIN", math.inf)  # else what learns has not collapsed
    alignment = {"max_epochs": 2, "learning_rate": 3e-3}
    strict = {"stop": False, "ndcg_share": 0.0, "cosine": 1.0}
    settings = make(alignment=alignment, dual_encoder={"dim": 16}, collapse=strict)
    run(settings, tmp_path / "whole")
    first, second = (record["kl"] for record in records(tmp_path / "whole", "evaluation")[:2])
    assert second < first
    changes: dict[str, Any] = {
        "alignment": settings.alignment.model_copy(update={"threshold": (first + second) / 2})
    }
    if counts_as_collapsed:
        # As any embeddings do with any loss.
        lax = {"cosine": 0.0, "loss_share": 0.0}
        changes["collapse"] = settings.collapse.model_copy(update=lax)
    run(settings.model_copy(update=changes), tmp_path / "run")
    assert records(tmp_path / "run", "evaluation")[1]["kl"] == pytest.approx(second)
    stops = [(stop["stage"], stop["step"]) for stop in records(tmp_path / "run", "stop")]
    assert stops == ([] if counts_as_collapsed else [("alignment", 4)])


def test_alignment_ends_when_patience_does(make, tmp_path):
    settings = make(
        # At such a rate retrieval stays as it is, or nearly.
        alignment={"max_epochs": 9, "threshold": -1e9, "patience": 2, "learning_rate": 1e-12},
        fine_tuning={"epochs": 1},
    )
    run(settings, tmp_path / "run")
    (stop,) = records(tmp_path / "run", "stop")
    assert stop["epoch"] == 2
    assert "for 2 epochs" in stop["reason"]


@pytest.mark.parametrize(
    ("query", "document"),
    [("bert", "distilbert"), ("electra", "mpnet"), ("mpnet", "roberta")],
)
def test_every_architecture_trains(make, query, document, tmp_path):
    settings = make(
        query=query,
        document=document,
        recipe="contrastive",
        fine_tuning={"epochs": 0.5},
        keep_stages=True,
    )
    run(settings, tmp_path / "run")
    assert changed(start(settings), stage_end(tmp_path / "run", "fine-tuning")) >= {
        "query_tower", "document_tower"
    }  # fmt: skip
    assert records(tmp_path / "run", "step")[0]["step"] == 2


SAMPLERS: list[dict[str, Any]] = [
    {"samplers": ["cache"], "cache_fraction": 0.5, "cache_precision": "float16"},
    {"samplers": ["uniform", "bm25", "in_batch"], "depth": 10, "shared": True},
    {"samplers": ["mined", "given"], "depth": 10, "refresh_every": 3},
    {"samplers": ["mined", "in_batch"], "depth": 10, "refresh_every": 0},  # STAR
]


@pytest.fixture(scope="module")
def triples(collection, tmp_path_factory) -> dict[str, str]:
    """The collection with a negative for each pair; read only."""
    path = tmp_path_factory.mktemp("triples") / "triples.tsv"
    path.write_text("".join(f"q{n}\td{n}\td{(n + 5) % 44}\n" for n in range(44)))
    return {"corpus": str(collection), "triples": str(path)}


@pytest.mark.parametrize("negatives", SAMPLERS, ids=lambda n: "+".join(n["samplers"]))
def test_every_sampler_trains(make, negatives, triples, tmp_path):
    settings = make(
        recipe="contrastive",
        data=[triples],
        negatives={"per_query": 4, **negatives},
        fine_tuning={"epochs": 1},
    )
    run(settings, tmp_path / "run")
    (step,) = records(tmp_path / "run", "step")
    assert 0 < step["loss"] < 20


def test_every_sampler_is_in_a_run():
    trained = {name for each in SAMPLERS for name in each["samplers"]}
    assert trained | {"dynamic"} == set(REGISTERED)  # ADORE has the other one


ADORE: dict[str, Any] = {
    "recipe": "adore",
    "loss__kind": "lambda",
    "negatives__samplers": ["dynamic"],
    "fine_tuning__epochs": 1,
}


def test_adore_trains_the_query_encoder_alone(make, tmp_path):
    settings = make(**ADORE, keep_stages=True)
    run(settings, tmp_path / "run")
    assert changed(start(settings), stage_end(tmp_path / "run", "adore")) == {"query_tower"}
    (step,) = records(tmp_path / "run", "step")
    assert 0 < step["loss"] < 20


def test_an_index_can_be_searched_by_what_adore_has_trained(
    make, collection, tiny_encoder, tmp_path
):
    index, tower = tmp_path / "index", {"model": f"{tiny_encoder}"}
    swiftlet.build(collection, index, encoder=tiny_encoder, truncate=True, language=None)
    towers = {"query_encoder": tower, "document_encoder": tower}
    run(make(**ADORE | towers, dual_encoder__projection="none"), tmp_path / "run")
    export_encoder(tmp_path / "run" / "query_encoder", tmp_path / "encoder", precisions=["fp32"])
    with swiftlet.open(index, encoder=tmp_path / "encoder") as searcher:
        assert len(searcher.search("kalo mine", 5, mode="dense").hits) == 5


PLAIN: dict[str, Any] = {
    "recipe": "contrastive",
    "fine_tuning__epochs": 1,
    "query_encoder__dropout": 0.0,
    "document_encoder__dropout": 0.0,
}


@pytest.fixture(scope="module")
def plain_loss(make, tmp_path_factory) -> float:
    out = tmp_path_factory.mktemp("plain") / "run"
    run(make(**PLAIN), out)
    return records(out, "step")[0]["loss"]


@pytest.mark.parametrize(
    ("savings", "tolerance"),
    [
        ({"optimiser__precision": "bf16"}, 2e-2),
        (
            {"document_encoder__gradient_checkpointing": True, "optimiser__micro_batch_size": 3},
            1e-4,
        ),
    ],
)
def test_memory_savings_do_not_change_the_training(make, plain_loss, savings, tolerance, tmp_path):
    run(make(**PLAIN | savings), tmp_path / "run")
    loss = records(tmp_path / "run", "step")[0]["loss"]
    assert loss == pytest.approx(plain_loss, rel=tolerance)
    assert loss != plain_loss


def test_runs_that_share_an_embedding_cache_train_alike(daft, aligned, tmp_path):
    shared = daft.model_copy(update={"embedding_cache": str(tmp_path / "frozen")})
    for name in ("first", "second"):
        run(shared, tmp_path / name)
        assert records(tmp_path / name) == records(aligned)
    assert len(list((tmp_path / "frozen").glob("*.outputs"))) == 1


def test_tensorboard_has_the_values_of_the_log(make, tmp_path):
    settings = make(tensorboard=True)
    run(settings, tmp_path / "run")
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    drawn = {event.step: event.value for event in board.Scalars("alignment/kl")}
    logged = {
        record["step"]: record["kl"]
        for record in records(tmp_path / "run", "evaluation")
        if record["stage"] == "alignment"
    }
    assert drawn == pytest.approx(logged)


def test_other_queries_can_validate(make, collection, tmp_path):
    settings = make(
        recipe="contrastive",
        validation={"data": [{"corpus": str(collection), "qrels": "train"}], "queries": 9},
        fine_tuning={"epochs": 1},
    )
    outcome = run(settings, tmp_path / "run")
    assert outcome.num_queries == 9
    # All 44 pairs are trained on.
    assert records(tmp_path / "run", "step")[0]["step"] == 5
