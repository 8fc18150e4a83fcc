"""Cross-encoders that learn from what an index finds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import swiftlet
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.errors import (
    CollectionError,
    InvalidArgumentError,
    ManifestError,
    RetrievalError,
)
from swiftlet.manifest import read_manifest
from tests.command_line import refusal
from tests.command_line import swiftlet as command
from tests.runs import Listener, records, write_collection, write_recipe
from training.errors import RecipeError, TrainingDataError
from training.model.cross_encoder import CrossEncoder, Pair
from training.model.towers import Tower, TowerSettings
from training.recipes.settings import parse_tables
from training.reranking.settings import RerankerRecipe
from training.reranking.task import smallest_of_the_best
from training.reranking.train import train_reranker

NUM_PAIRS = 80


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a collection and its index; read only."""
    folder = write_collection(tmp_path_factory.mktemp("pairs"), NUM_PAIRS)
    swiftlet.build(folder, folder / "index", encoder=DEFAULT_ENCODER)
    return folder


def tables(place: Path, model: Path, **settings: Any) -> dict[str, Any]:
    data = {"queries": str(place), "qrels": str(place / "qrels" / "train.tsv")}
    return {
        "recipe": "cross-encoder",
        "index": str(place / "index"),
        "data": [data],
        "cross_encoder": {"model": str(model), "max_tokens": 32, "dropout": 0.0},
        "candidates": {"depth": 20, "negatives": 3, "reranked": 10},
        "optimiser": {"learning_rate": 1e-3, "batch_size": 8, "warmup_steps": 0},
        "epochs": 3,
        **settings,
    }


def recipe(place: Path, model: Path, **settings: Any) -> RerankerRecipe:
    return parse_tables(RerankerRecipe, tables(place, model, **settings), "the recipe")


@pytest.fixture(scope="module")
def trained(place, checkpoints, tmp_path_factory) -> tuple[Path, str]:
    """A finished run, and what the command printed; read only."""
    folder = tmp_path_factory.mktemp("trained")
    path = write_recipe(folder / "recipe.toml", tables(place, checkpoints["bert"], epochs=30))
    result = command("train", path, "--out", folder / "run")
    assert result.exit_code == 0, result.output
    return folder / "run", result.stdout


@pytest.fixture(scope="module")
def exported(trained) -> tuple[Path, str]:
    """The re-ranker in ONNX, and what the command printed; read only."""
    run, _ = trained
    result = command("export", run / "cross_encoder", "--out", run.with_name("reranker"))
    assert result.exit_code == 0, result.output
    return run.with_name("reranker"), result.stdout


def test_it_learns(trained):
    run, printed = trained
    losses = [each["loss"] for each in records(run, "step")]
    assert losses[-1] < 0.8 * losses[0]
    best = read_manifest(run, "model").details["best"]
    evaluations = records(run, "evaluation")
    assert best["mean_ndcg@10"] == max(each["mean_ndcg@10"] for each in evaluations)
    assert evaluations[0]["searched_ndcg@10"] == best["searched_ndcg@10"]
    assert f"nDCG@10 {best['ndcg@10']:.4f} with weight {best['weight']}" in printed
    advice = f"Next: swiftlet serve INDEX --reranker {run}/onnx/cross_encoder"
    assert (advice if best["weight"] else "It is no better than the search") in printed
    with pytest.raises(InvalidArgumentError, match="is a cross-encoder, which gives no embeddings"):
        Tower.load(TowerSettings(model=f"{run}/cross_encoder", pooling="mean"))


def test_its_weight_goes_on_to_search(place, trained, exported, tmp_path):
    run, _ = trained
    reranker, printed = exported
    weight = read_manifest(run, "model").details["best"]["weight"]
    assert f"a re-ranker of weight {weight:g}" in printed
    assert OnnxReranker.load(reranker).weight == weight
    refused = command("export", run / "cross_encoder", "--out", tmp_path / "o", "--dim", 8)
    assert "is a cross-encoder, which takes no --dim" in refused.output
    with swiftlet.open(place / "index", reranker=reranker) as searcher:
        query = json.loads((place / "queries.jsonl").read_text().splitlines()[0])["text"]
        assert searcher.search(query, rerank=5).num_reranked == 5


def test_a_weight_of_0_does_not_change_the_order(place, trained, tmp_path):
    run, _ = trained
    out = tmp_path / "none"
    assert command("export", run / "cross_encoder", "--out", out, "--weight", 0).exit_code == 0
    searched = command("search", place / "index", "kalo", "--reranker", out, "--rerank", 5)
    assert "has the weight 0, so it does not change the order" in searched.output


def test_the_smallest_weight_that_is_no_worse_is_taken():
    chance = np.random.default_rng(0)
    best = chance.uniform(size=200)
    alike = best - chance.normal(0.001, 0.1, 200)
    worse = best - chance.normal(0.2, 0.1, 200)
    assert smallest_of_the_best({0.1: worse, 0.5: alike, 1.0: best}) == 0.5
    assert smallest_of_the_best({0.1: best, 1.0: best}) == 0.1
    assert smallest_of_the_best({0.1: worse, 1.0: best}) == 1.0


def test_the_same_seed_gives_the_same_run_in_any_micro_batches(place, checkpoints, tmp_path):
    runs = []
    for size in (8, 3):
        optimiser = {"learning_rate": 1e-3, "batch_size": 8, "micro_batch_size": size}
        out = tmp_path / f"{size}"
        settings = recipe(place, checkpoints["bert"], optimiser=optimiser, epochs=1)
        train_reranker(settings, out, progress=Listener())
        runs.append([each["loss"] for each in records(out, "step")])
    assert runs[0] == pytest.approx(runs[1], rel=1e-4)


def test_the_weights_that_ship_are_a_start(tmp_path):
    begun = CrossEncoder.load(TowerSettings(DEFAULT_QUERY_ENCODER, max_tokens=32)).eval()
    begun.save(tmp_path / "saved")
    again = CrossEncoder.load(TowerSettings(tmp_path / "saved")).eval()
    assert again.max_tokens == 32
    assert again.model.config.type_vocab_size == 2  # the exported encoder has one
    pairs = [Pair("what do bees eat", "Bees eat nectar."), Pair("rivers", "A bridge of steel.")]
    found, expected = (each(each.tokenise(pairs)).detach() for each in (again, begun))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_queries_without_a_relevant_document_among_the_best_are_left_out(
    place, checkpoints, tmp_path
):
    listener = Listener()
    candidates = {"depth": 2, "negatives": 1, "reranked": 10}
    settings = recipe(place, checkpoints["bert"], candidates=candidates, epochs=0.1)
    train_reranker(settings, tmp_path / "run", progress=listener)
    (note,) = [note for note in listener.notes if "left out" in note]
    assert "of 64 queries have no relevant document among their 2 best" in note


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"index": str(DEFAULT_ENCODER)}, ManifestError, "is of kind 'encoder', but 'index' is"),
        ({"candidates": {"depth": 1}}, TrainingDataError, "raise candidates.depth"),
        ({"cross_encoder": {"model": "nowhere/at/all"}}, RetrievalError, "nowhere/at/all does not"),
    ],
)
def test_bad_settings_leave_nothing_behind(change, error, sentence, place, checkpoints, tmp_path):
    settings = recipe(place, checkpoints["bert"], **change)
    with pytest.raises(error, match=sentence):
        train_reranker(settings, tmp_path / "run", progress=Listener())
    assert not (tmp_path / "run").exists()


def test_bad_qrels_are_refused(place, checkpoints, tmp_path):
    lines = (place / "qrels" / "train.tsv").read_text().splitlines()
    few, unknown = tmp_path / "few.tsv", tmp_path / "unknown.tsv"
    few.write_text("\n".join(lines[:10]))
    unknown.write_text("\n".join([*lines, "q1\tnowhere\t1"]))
    for qrels, error, sentence in (
        (
            few,
            TrainingDataError,
            "at least 50 queries with different words",
        ),
        (unknown, CollectionError, "nowhere"),
    ):
        data = [{"queries": str(place), "qrels": str(qrels)}]
        settings = recipe(place, checkpoints["bert"], data=data)
        with pytest.raises(error, match=sentence):
            train_reranker(settings, tmp_path / "run", progress=Listener())
    with pytest.raises(RecipeError, match=r"candidates\.depth is 0"):
        recipe(place, checkpoints["bert"], candidates={"depth": 0})


def test_a_dry_run_prints_the_size_of_the_training_and_writes_nothing(place, checkpoints, tmp_path):
    path = write_recipe(tmp_path / "recipe.toml", tables(place, checkpoints["bert"]))
    before = sorted(tmp_path.rglob("*"))
    result = command("train", path, "--out", tmp_path / "run", "--dry-run")
    assert result.exit_code == 0, result.output
    rows = [line.strip("│ ") for line in result.stdout.splitlines()]
    for name, value in {
        "queries to train on": "64",
        "queries held out": "16",
        "pairs of a step": "at most 32",
        "pairs of an evaluation": "at most 160",
        "steps": "at most 24",
    }.items():
        assert any(row.startswith(f"{name} ") and row.endswith(f"│ {value}") for row in rows)
    assert sorted(tmp_path.rglob("*")) == before
    assert "--out is missing" in refusal(command("train", path))
