"""All errors in a recipe are reported, and no setting is ignored."""

from pathlib import Path
from typing import Any

import pytest

from swiftlet.errors import InvalidArgumentError
from training.errors import RecipeError
from training.recipes.settings import Recipe, parse_recipe, read_recipe

WHOLE = """
recipe = "daft"

[[data]]
corpus = "squad"
qrels = "train"

[[data]]
corpus = "boolq"
qrels = "dev"

[query_encoder]
model = "small"
layers = [0, 5]

[document_encoder]
model = "large"
"""


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(WHOLE)
    return path


def content(**tables: Any) -> dict[str, Any]:
    return {
        "recipe": "daft",
        "data": [{"corpus": "c", "qrels": "train"}],
        "query_encoder": {"model": "q"},
        "document_encoder": {"model": "d"},
        **tables,
    }


def refusal(**tables: Any) -> str:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(content(**tables), "r.toml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_recipe_needs_data_and_two_models_only(path):
    recipe = read_recipe(path)
    assert [source.corpus for source in recipe.data] == ["squad", "boolq"]
    assert recipe.query_encoder.layers == (0, 5)
    # Sections 5.3.1 and 5.3.2 of the paper.
    assert (recipe.loss.score_factor, recipe.loss.temperature) == (20, 1)


def test_all_errors_are_reported_together():
    message = refusal(
        recipe="raft",
        query_encoder={"model": "q", "layer": [0], "dropout": 1.5},
        document_encoder={},
        optimiser={"batch_size": 1, "precision": "int8"},
        surprise=1,
    )
    assert message.startswith("r.toml: ")
    for fault in (
        "recipe is 'raft', but should be 'daft', 'contrastive', 'alternating' or 'adore'",
        "query_encoder.layer is not a setting; the settings are model, layers, ",
        "query_encoder.dropout is 1.5, but should be less than 1",
        "document_encoder.model is missing",
        "optimiser.batch_size is 1, but should be greater than or equal to 2",
        "optimiser.precision is 'int8', but should be 'fp32', 'bf16' or 'fp16'",
        "surprise is not a setting",
    ):
        assert fault in message


@pytest.mark.parametrize(
    ("tables", "fault"),
    [
        ({"data": []}, "data has 0 entries; at least 1 is expected"),
        ({"data": [{"qrels": "q"}]}, "data.0.corpus is missing"),
        ({"data": [{"corpus": "c", "queries": "q"}]}, "data.0: c: a corpus needs qrels or triples"),
        ({"validation": {"queries": 7}}, "validation.queries is 7"),
        ({"negatives": {"samplers": []}}, "negatives.samplers has 0 entries"),
        ({"negatives": {"samplers": ["cache", "cache"]}}, "names a sampler twice"),
        (
            {"negatives": {"samplers": ["bm25"], "depth": 9}},
            "depth is 9: at least per_query, 64",
        ),
        ({"negatives": {"samplers": ["given"]}}, "no source in data has triples"),
        ({"negatives": {"teacher_share": 0}}, "teacher_share is 0"),
        ({"fine_tuning": {"average": 0.5}}, "a random projection has no use for them"),
        (
            {"dual_encoder": {"sharing": "all"}},
            "query_encoder.model and document_encoder.model dif",
        ),
        (
            {"dual_encoder": {"sharing": "all"}, "document_encoder": {"model": "q"}},
            "recipe 'daft' trains the encoders apart: choose recipe 'contrastive'",
        ),
        (
            {
                "recipe": "contrastive",
                "dual_encoder": {"sharing": "all", "projection": "separate"},
                "document_encoder": {"model": "q"},
            },
            "its projection is 'separate': choose 'shared' or 'none'",
        ),
        (
            {"recipe": "adore", "dual_encoder": {"sharing": "token_embeddings"}},
            "recipe 'adore' keeps documents as they are: set it to 'none'",
        ),
        (
            {"negatives": {"samplers": ["dynamic"]}},
            "'dynamic', which needs documents that stay as they are",
        ),
        (
            {"recipe": "adore", "loss": {"kind": "lambda"}, "negatives": {"samplers": ["cache"]}},
            "'lambda', but the sampler 'cache' keeps negatives",
        ),
        ({"alignment": {"plateau_of": "mrr"}}, "plateau_of is 'mrr'"),
        (
            {"data": [{"corpus": "c", "qrels": "q", "relevant_from": 0}]},
            "relevant_from is 0, but should be",
        ),
        ({"alignment": {"max_epochs": float("inf")}}, "max_epochs is inf"),
        ({"optimiser": {"learning_rate": 0}}, "learning_rate is 0, but should be greater than 0"),
        ({"alignment": {"threshold": True}}, "threshold"),
        ({"seed": -1}, "seed is -1"),
        ({"query_encoder": {"model": "q", "permute_basis": -1}}, "permute_basis is -1"),
    ],
)
def test_contradicting_settings_are_refused(tables, fault):
    message = refusal(**tables)
    assert fault in message
    # A list with a bad entry is not called empty.
    assert ("entries" in message) == ("entries" in fault)


def test_a_recipe_survives_being_kept_as_json():
    recipe = parse_recipe(content(query_encoder={"model": "q", "layers": [1]}), "r")
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe


def test_settings_are_overridden_in_tables_and_lists(path):
    recipe = read_recipe(
        path,
        [
            "optimiser.learning_rate=3e-4",
            "data.1.corpus=elsewhere",
            "query_encoder.layers.1 = 3",
            "recipe=contrastive",
            'document_encoder.model="a=b"',
            "negatives.samplers=['in_batch']",
        ],
    )
    assert recipe.optimiser.learning_rate == 3e-4
    assert [source.corpus for source in recipe.data] == ["squad", "elsewhere"]
    assert recipe.query_encoder.layers == (0, 3)
    assert recipe.recipe == "contrastive"
    assert recipe.document_encoder.model == "a=b"
    assert recipe.negatives.samplers == ("in_batch",)


def test_an_override_without_a_value_takes_the_default_back(path):
    assert read_recipe(path, ["query_encoder.layers="]).query_encoder.layers is None
    assert read_recipe(path, ["seed="]).seed == 0


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("seed", "'seed' is not of the form key=value"),
        ("=1", "not of the form"),
        ("a..b=1", "not of the form"),
        ("data.2.corpus=x", "'2' is not an index of the 2 entries, from 0"),
        ("data.first.corpus=x", "'first' is not an index"),
        ("query_encoder.layers.7=1", "'7' is not an index of the 2 entries"),
        ("query_encoder.layers.0.x=1", "0 is a value, not a table"),
        ("recipe.x=1", "recipe is a value, not a table"),
    ],
)
def test_an_override_of_no_place_is_refused(path, override, fault):
    with pytest.raises(InvalidArgumentError) as caught:
        read_recipe(path, [override])
    assert fault in str(caught.value)


def test_an_unknown_override_is_refused_like_a_setting_of_the_file(path):
    with pytest.raises(RecipeError, match=r"optimiser\.lr is not a setting"):
        read_recipe(path, ["optimiser.lr=1"])


def test_a_file_that_is_no_recipe_is_named(tmp_path):
    with pytest.raises(RecipeError, match=r"absent\.toml cannot be read: No such file"):
        read_recipe(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("recipe = \n")
    with pytest.raises(RecipeError, match=r"broken\.toml is not TOML: .*line 1"):
        read_recipe(tmp_path / "broken.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RecipeError, match=r"binary\.toml is not TOML"):
        read_recipe(tmp_path / "binary.toml")
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(RecipeError, match="recipe is missing; data is missing"):
        read_recipe(tmp_path / "empty.toml")
