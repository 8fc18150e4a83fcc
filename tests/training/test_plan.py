"""A plan estimates a run without training."""

from typing import Any

import pytest

from swiftlet.errors import InvalidArgumentError
from swiftlet.progress import Silence
from tests.runs import records, run
from training.plan import Plan, make_plan


@pytest.fixture
def plan(make) -> Any:
    """Makes plans."""

    def plan_of(**settings: Any) -> Plan:
        return make_plan(make(**settings), Silence())

    return plan_of


def test_sizes_and_steps_are_those_of_the_run(make, plan, tmp_path):
    settings: dict[str, Any] = {"alignment__max_epochs": 1.3, "fine_tuning__epochs": 0.6}
    found = plan(**settings)
    assert (found.num_pairs, found.num_queries, found.num_passages) == (36, 36, 44)
    assert (found.num_validation_queries, found.num_searched_passages) == (8, 44)
    assert found.steps_per_epoch == 4
    run(make(**settings), tmp_path / "r")
    done = {record["stage"]: record["step"] for record in records(tmp_path / "r", "step")}
    assert found.most_steps == done == {"alignment": 6, "fine-tuning": 3}
    assert plan(**settings, fine_tuning__max_steps=2).most_steps["fine-tuning"] == 2


@pytest.mark.parametrize("name", ["contrastive", "alternating"])
def test_the_other_recipes_have_one_stage(make, name, plan, tmp_path):
    settings = {"recipe": name, "fine_tuning__epochs": 0.5}
    found = plan(**settings)
    run(make(**settings), tmp_path / "run")
    assert {*found.most_steps} == {record["stage"] for record in records(tmp_path / "run", "step")}


def test_memory_counts_weights_moments_and_the_cache(plan):
    found = plan(dual_encoder={"dim": 10}, negatives__cache_fraction=0.5)
    projection = 32 * 10 + 10
    parameters = found.query_parameters + found.document_parameters + projection
    assert found.training_bytes == 16 * parameters
    assert found.cache_bytes == 22 * 10 * 4
    assert plan(negatives__cache_precision="float16").cache_bytes == 44 * 32 * 2
    assert plan(negatives__samplers=["in_batch"]).cache_bytes == 0


def test_the_refresh_is_that_of_the_cache(plan):
    found = plan(negatives__cache_fraction=0.5, negatives__refresh_fraction=0.1)
    assert found.num_refreshed == 3  # of 22
    assert ("passages encoded again each step", "3") in found.rows()
    assert plan(negatives__samplers=["in_batch"]).num_refreshed == 0


def test_gradient_checkpointing_needs_less_for_activations(plan):
    settings = {"document_encoder__gradient_checkpointing": True}
    assert plan(**settings).activation_bytes < plan().activation_bytes


def test_smaller_micro_batches_and_fewer_bits_need_less_for_activations(plan):
    whole = plan().activation_bytes
    assert plan(optimiser__precision="bf16").activation_bytes == whole / 2
    assert plan(optimiser__micro_batch_size=500).activation_bytes == whole
    batch = plan(optimiser__micro_batch_size=8).activation_bytes
    assert batch < whole
    assert plan(optimiser__micro_batch_size=2).activation_bytes == batch / 4
    # Without explicit negatives, a batch has half as many passages.
    assert plan(negatives__samplers=["in_batch"]).activation_bytes == batch


def test_encoders_of_two_spaces_without_a_projection_are_noted(make, plan, tmp_path):
    none = {"projection": "none"}
    for seed, name in enumerate(("one", "other")):
        others = {"seed": seed, "dual_encoder": none, "fine_tuning__epochs": 0.5}
        run(make(recipe="contrastive", **others), tmp_path / name)
    queries, documents = (
        f"{tmp_path / 'one' / each}" for each in ("query_encoder", "document_encoder")
    )

    def notes(query_encoder: str, **settings: Any) -> str:
        models = {"query_encoder__model": query_encoder, "document_encoder__model": documents}
        return "".join(plan(**models, dual_encoder=none, **settings).notes)

    assert "another embedding space" not in notes(queries)
    of_other = f"{tmp_path / 'other' / 'query_encoder'}"
    assert f"{of_other} is of another embedding space than {documents}" in notes(of_other)
    assert "another embedding space" not in notes(of_other, alignment__start="ridge")


def test_token_embeddings_that_are_replaced_are_noted(plan, checkpoints, tmp_path):
    model, other = f"{checkpoints['bert']}", tmp_path / "other"
    other.symlink_to(model)

    def notes(documents: str) -> str:
        models = {"query_encoder__model": model, "document_encoder__model": documents}
        return "".join(plan(**models, dual_encoder={"sharing": "token_embeddings"}).notes)

    assert (
        f"the token embeddings of {model} are replaced by the token embeddings of {other}"
        in notes(f"{other}")
    )
    assert "replaced" not in notes(model)


def test_a_recipe_that_could_not_run_is_refused(plan, narrow):
    with pytest.raises(InvalidArgumentError, match="24 wide"):
        plan(query_encoder__model=str(narrow), dual_encoder={"projection": "none"})
