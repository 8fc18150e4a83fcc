"""The recipes in training/recipes/, and the settings in their comments."""

import re
import tomllib
from pathlib import Path

import pytest

from training.recipes.overrides import read_tables
from training.recipes.settings import parse_tables, read_recipe
from training.reranking.settings import RerankerRecipe

FOLDER = Path(__file__).parents[3] / "training" / "recipes"
PAPER = FOLDER / "paper.toml"
PROPOSED = [
    found
    for line in PAPER.read_text("utf-8").splitlines()
    if line.startswith("#") and (found := re.findall(r"[a-z_.]+=[^\s,]+", line))
]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_a_ready_recipe_is_valid(path):
    kind = tomllib.loads(path.read_text("utf-8"))["recipe"]
    if kind == "cross-encoder":
        assert parse_tables(RerankerRecipe, read_tables(path), path.stem).recipe == kind
    else:
        assert read_recipe(path).recipe == kind == "daft"


@pytest.mark.parametrize("overrides", PROPOSED, ids=lambda overrides: overrides[0])
def test_the_settings_for_the_other_rows_of_the_paper_exist(overrides):
    assert read_recipe(PAPER, overrides) != read_recipe(PAPER)


def test_the_paper_s_settings_are_the_paper_s():
    recipe = read_recipe(PAPER)
    assert (recipe.dual_encoder.dim, recipe.dual_encoder.projection) == (512, "shared")
    assert (recipe.negatives.samplers, recipe.negatives.per_query) == (("cache",), 64)
    assert recipe.negatives.choice == "sample"
    assert recipe.negatives.cache_fraction * 8_841_823 == pytest.approx(512_000, rel=0.001)
    assert (recipe.loss.score_factor, recipe.loss.temperature) == (20, 1)
    optimiser = recipe.optimiser
    assert (optimiser.batch_size, optimiser.learning_rate, optimiser.warmup_steps) == (
        48,
        1e-5,
        1000,
    )
    assert recipe.alignment.threshold == 250
    assert (recipe.alignment.patience, recipe.fine_tuning.epochs) == (3, 10)
