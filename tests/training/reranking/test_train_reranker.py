"""Cross-encoders that learn from what an index finds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import swiftlet
from export.reranker_directory import export_reranker
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
from training.model.towers import Tower, TowerSettings
from training.recipes.settings import parse_tables
from training.reranking.settings import RerankerRecipe
from training.reranking.task import smallest_of_the_best
from training.reranking.train import train_reranker

NUM_PAIRS = 80


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_it_learns_and_goes_on_to_search(
    place: Path, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    path = write_recipe(tmp_path / "recipe.toml", tables(place, checkpoints["bert"], epochs=30))
    result = command("train", path, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    losses = [each["loss"] for each in records(tmp_path / "run", "step")]
    assert losses[-1] < 0.8 * losses[0]
    best = read_manifest(tmp_path / "run", "model").details["best"]
    evaluations = records(tmp_path / "run", "evaluation")
    assert best["mean_ndcg@10"] == max(each["mean_ndcg@10"] for each in evaluations)
    assert evaluations[0]["searched_ndcg@10"] == best["searched_ndcg@10"]
    assert f"nDCG@10 {best['ndcg@10']:.4f} with weight {best['weight']}" in result.stdout
    advice = f"Next: swiftlet serve INDEX --reranker {tmp_path}/run/onnx/cross_encoder"
    assert (advice if best["weight"] else "It is no better than the search") in result.stdout
    exported = command("export", tmp_path / "run" / "cross_encoder", "--out", tmp_path / "reranker")
    assert exported.exit_code == 0, exported.output
    assert f"a re-ranker of weight {best['weight']:g}" in exported.stdout
    assert OnnxReranker.load(tmp_path / "reranker").weight == best["weight"]
    refused = command(
        "export", tmp_path / "run" / "cross_encoder", "--out", tmp_path / "o", "--dim", 8
    )
    assert "is a cross-encoder, which takes no --dim" in refused.output
    with pytest.raises(InvalidArgumentError, match="is a cross-encoder, which gives no embeddings"):
        Tower.load(TowerSettings(model=f"{tmp_path}/run/cross_encoder", pooling="mean"))
    with swiftlet.open(place / "index", reranker=tmp_path / "reranker") as searcher:
        query = json.loads((place / "queries.jsonl").read_text().splitlines()[0])["text"]
        assert searcher.search(query, rerank=5).num_reranked == 5
    arguments = "export", tmp_path / "run" / "cross_encoder", "--out", tmp_path / "none"
    assert command(*arguments, "--weight", 0).exit_code == 0
    reranking = "--reranker", tmp_path / "none", "--rerank", 5
    searched = command("search", place / "index", query, *reranking)
    assert "has the weight 0, so it does not change the order" in searched.output


def test_the_smallest_weight_that_is_no_worse_is_taken() -> None:
    chance = np.random.default_rng(0)
    best = chance.uniform(size=200)
    alike = best - chance.normal(0.001, 0.1, 200)
    worse = best - chance.normal(0.2, 0.1, 200)
    assert smallest_of_the_best({0.1: worse, 0.5: alike, 1.0: best}) == 0.5
    assert smallest_of_the_best({0.1: best, 1.0: best}) == 0.1
    assert smallest_of_the_best({0.1: worse, 1.0: best}) == 1.0


def test_the_same_seed_gives_the_same_run_in_any_micro_batches(
    place: Path, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    runs = []
    for size in (8, 3):
        optimiser = {"learning_rate": 1e-3, "batch_size": 8, "micro_batch_size": size}
        out = tmp_path / f"{size}"
        settings = recipe(place, checkpoints["bert"], optimiser=optimiser, epochs=1)
        train_reranker(settings, out, progress=Listener())
        runs.append([each["loss"] for each in records(out, "step")])
    assert runs[0] == pytest.approx(runs[1], rel=1e-4)


def test_the_weights_that_ship_are_a_start(place: Path, tmp_path: Path) -> None:
    settings = recipe(place, DEFAULT_QUERY_ENCODER, epochs=0.2)
    outcome = train_reranker(settings, tmp_path / "run", progress=Listener())
    assert outcome.num_queries == NUM_PAIRS // 5
    manifest = export_reranker(tmp_path / "run" / "cross_encoder", tmp_path / "reranker")
    assert manifest.details["max_tokens"] == 32


def test_queries_without_a_relevant_document_among_the_best_are_left_out(
    place: Path, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
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
def test_bad_settings_leave_nothing_behind(
    change: dict[str, Any],
    error: type[Exception],
    sentence: str,
    place: Path,
    checkpoints: dict[str, Path],
    tmp_path: Path,
) -> None:
    settings = recipe(place, checkpoints["bert"], **change)
    with pytest.raises(error, match=sentence):
        train_reranker(settings, tmp_path / "run", progress=Listener())
    assert not (tmp_path / "run").exists()


def test_bad_qrels_are_refused(place: Path, checkpoints: dict[str, Path], tmp_path: Path) -> None:
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


def test_a_dry_run_prints_the_size_of_the_training_and_writes_nothing(
    place: Path, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
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
