"""The results of training, and its error messages."""

import json
import math
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from export.source import load_source
from swiftlet.errors import (
    ArtefactError,
    CollectionError,
    CorruptArtefactError,
    InvalidArgumentError,
    RetrievalError,
    StorageError,
)
from swiftlet.manifest import read_manifest, verify_files
from swiftlet.progress import Silence
from swiftlet.publication import locked_working_directory
from tests.processes import Command
from tests.runs import Listener, Make, records, run, tables, write_collection, write_recipe
from tests.small_disk import small_disk
from training.errors import CollapsedError, RecipeError, TrainingDataError, TrainingStoppedError
from training.loop.checkpoints import read_checkpoint
from training.loop.devices import memory_errors
from training.model.fingerprint import embedding_space
from training.model.lookup import make_lookup
from training.model.quiet import quiet
from training.plan import make_plan
from training.recipes.settings import Recipe
from training.train import memory_advice, train

__all__ = ["small_disk"]


@pytest.fixture(scope="module")
def make(make) -> Make:
    """Makes recipes of two short stages."""
    return partial(make, alignment__max_epochs=0.5, fine_tuning__epochs=0.5)


@pytest.fixture(scope="module")
def finished(make, tmp_path_factory) -> Path:
    """A finished run; read only."""
    out = tmp_path_factory.mktemp("finished") / "run"
    run(make(), out)
    return out


def refused(kind: type[RetrievalError], settings: Recipe, out: Path, **options: bool) -> str:
    with pytest.raises(kind) as caught:
        run(settings, out, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_finished_run_is_an_artefact_with_complete_files(finished):
    manifest = read_manifest(finished, "model")
    verify_files(finished, manifest)
    present = {
        path.relative_to(finished).as_posix() for path in finished.rglob("*") if path.is_file()
    }
    assert {*manifest.files, "manifest.json"} == present
    assert manifest.dim == 32
    assert manifest.details["recipe"]["recipe"] == "daft"
    assert manifest.details["best"]["stage"] == "fine-tuning"
    assert manifest.details["validation"]["num_queries"] == 8
    assert sorted(entry.name for entry in finished.parent.iterdir()) == ["run"]


def test_both_encoders_load_in_sentence_transformers_and_for_export(finished):
    texts = ["kalo mine", "pura"]
    for name in ("query_encoder", "document_encoder"):
        with quiet():
            model = SentenceTransformer(str(finished / name), device="cpu")
            embeddings = model.encode(texts, convert_to_tensor=True, show_progress_bar=False)
        torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(2))
        source = load_source(finished / name)
        assert (source.dim, source.max_tokens, source.pooling) == (32, 24, "mean")
        if name == "document_encoder":
            assert embedding_space(source.model) == read_manifest(finished).embedding_space


def test_the_query_encoder_may_be_a_look_up_encoder(make, checkpoints, tmp_path):
    bert = SentenceTransformer(str(checkpoints["bert"]), device="cpu")
    table = bert[0].auto_model.embeddings.word_embeddings.weight.detach()
    make_lookup(bert.tokenizer.backend_tokenizer, table, 24).save(str(tmp_path / "lookup"))
    recipe = make(
        query_encoder={"model": str(tmp_path / "lookup")}, dual_encoder={"projection": "none"}
    )
    assert make_plan(recipe, Silence()).query_parameters == table.numel()
    run(recipe, tmp_path / "run")
    trained = load_source(tmp_path / "run" / "query_encoder").model[0].embedding.weight
    assert trained.shape == table.shape
    assert not torch.equal(trained, table)


def test_a_finished_run_is_neither_overwritten_nor_resumed_by_default(make, finished, tmp_path):
    before = content(finished)
    for resume in (False, True):
        message = refused(InvalidArgumentError, make(), finished, resume=resume)
        assert message.endswith("or --resume to export what is not exported yet")
    assert content(finished) == before
    copy = Path(shutil.copytree(finished, tmp_path / "run"))
    run(make(seed=1), copy, overwrite=True)
    assert records(copy) != records(finished)


def test_a_run_that_was_to_be_overwritten_comes_back_if_the_new_one_cannot_begin(
    make, finished, tmp_path
):
    copy = Path(shutil.copytree(finished, tmp_path / "run"))
    broken = make(data=[{"corpus": str(tmp_path / "nowhere"), "qrels": "train"}])
    refused(CollectionError, broken, copy, overwrite=True)
    assert content(copy) == content(finished)
    # As a killed process leaves it.
    hidden = tmp_path / ".run.partial"
    hidden.mkdir()
    copy.rename(hidden / "earlier")
    copy.mkdir()
    (copy / "recipe.json").write_text("{}")
    assert "has a finished run" in refused(InvalidArgumentError, make(), copy)
    assert content(copy) == content(finished)


def test_a_run_that_was_killed_while_it_replaced_another_can_be_overwritten_in_turn(
    make, finished, stopped
):
    # As a process leaves it that is killed after the new run's first checkpoint.
    hidden = stopped.with_name(".run.partial")
    hidden.mkdir()
    shutil.copytree(finished, hidden / "earlier")
    run(make(), stopped, overwrite=True)
    assert records(stopped) == records(finished)
    assert not hidden.exists()


def test_resume_and_overwrite_exclude_each_other(make, stopped):
    before = content(stopped)
    settings = make(**DIVERGING)
    message = refused(InvalidArgumentError, settings, stopped, resume=True, overwrite=True)
    assert message == "--resume and --overwrite exclude each other: pass one of them"
    assert content(stopped) == before


def test_a_place_that_is_no_run_is_left_alone(make, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "is not a directory" in refused(InvalidArgumentError, make(), tmp_path / "file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("mine")
    message = refused(InvalidArgumentError, make(), tmp_path / "folder", overwrite=True)
    assert "has no recipe.json: it is no run" in message
    assert (tmp_path / "folder" / "thesis.txt").read_text() == "mine"


def test_two_processes_cannot_train_into_one_place(make, tmp_path):
    out = tmp_path / "run"
    with locked_working_directory(out):
        message = refused(ArtefactError, make(), out)
    assert message == f"another process is writing {out}: wait until it ends, or stop it"


@pytest.fixture
def stopped(make, tmp_path) -> Path:
    """A run that stopped, since its loss was no number, after a checkpoint."""
    out = tmp_path / "run"
    with pytest.raises(TrainingStoppedError):
        run(make(**DIVERGING), out)
    return out


DIVERGING: dict[str, Any] = {
    "recipe": "contrastive",
    "fine_tuning__epochs": 2,
    "validation__every": 2,
    # By then of the last rates the first checkpoint is written.
    "optimiser": {"learning_rate": 1e30, "batch_size": 8, "warmup_steps": 0},
}


def test_an_unfinished_run_is_resumed_only_on_request_and_with_the_same_recipe(make, stopped):
    before = content(stopped)
    message = refused(InvalidArgumentError, make(**DIVERGING), stopped)
    assert (
        "has an unfinished run; pass --resume to continue or --overwrite to start again" in message
    )
    other = make(**DIVERGING | {"seed": 3, "loss__score_factor": 10.0})
    message = refused(RecipeError, other, stopped, resume=True)
    assert "another recipe: loss.score_factor 20.0, not 10.0; seed 0, not 3: use" in message
    assert content(stopped) == before


def test_a_run_with_a_loss_that_was_not_finite_resumes_with_a_lower_learning_rate(make, stopped):
    lower = DIVERGING["optimiser"] | {"learning_rate": 1e-3}
    run(make(**DIVERGING | {"optimiser": lower}), stopped, resume=True)
    rates = [record["learning_rate"] for record in records(stopped, "step")]
    assert rates == pytest.approx([1e-3 * (8 - step) / 8 for step in (2, 4, 6, 8)])


def test_settings_without_effect_on_the_result_may_change_when_a_run_is_resumed(make, stopped):
    changed = make(**DIVERGING | {"keep_stages": True})
    changed = changed.model_copy(
        update={"optimiser": changed.optimiser.model_copy(update={"micro_batch_size": 2})}
    )
    assert "not a finite number" in refused(TrainingStoppedError, changed, stopped, resume=True)
    assert json.loads((stopped / "recipe.json").read_text())["keep_stages"] is True


@pytest.mark.parametrize("every", [1, 2])
def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_last_good_checkpoint(
    every, make, tmp_path
):
    out = tmp_path / "run"
    settings = make(**DIVERGING | {"validation__every": every})
    message = refused(TrainingStoppedError, settings, out)
    what = "an embedding is" if every == 1 else "the loss is"
    step = 1 if every == 1 else 2
    assert message == (
        f"{what} not a finite number at step {step} of stage fine-tuning: lower the learning "
        f"rate (now 1e+30), which --resume allows; the last checkpoint is {out}/checkpoint"
    )
    state = read_checkpoint(out / "checkpoint")
    assert state["train_state"]["step"] == 0
    assert all(bool(value.isfinite().all()) for value in state["model"].values())
    # Going on from there comes to the same end.
    assert refused(TrainingStoppedError, settings, out, resume=True) == message
    assert [record["step"] for record in records(out, "evaluation")] == [0]
    assert not (out / "manifest.json").exists()


def test_an_altered_checkpoint_is_refused(make, stopped):
    place = stopped / "checkpoint" / "state.safetensors"
    altered = bytearray(place.read_bytes())
    altered[-1] ^= 1
    place.write_bytes(altered)
    message = refused(CorruptArtefactError, make(**DIVERGING), stopped, resume=True)
    assert f"{place} has been altered" in message


def test_a_collapsed_run_ends_with_its_metrics_in_the_message(make, tmp_path):
    out = tmp_path / "run"
    collapsing = make(
        recipe="contrastive",
        fine_tuning__epochs=20,
        validation__every=2,
        optimiser={"learning_rate": 0.1, "batch_size": 8, "warmup_steps": 0},
        collapse={"stop": True},
    )
    message = refused(CollapsedError, collapsing, out)
    assert "the run has collapsed (" in message
    for figure in ("loss ", "ln(|D⁻| + 1) is ", "mean cosine ", "effective rank ", "nDCG@10 "):
        assert figure in message
    assert message.endswith(f"; the last checkpoint is {out}/checkpoint")
    evaluations = records(out, "evaluation")
    # Twice in a row, but not before the first step.
    assert [record["collapse"] != "none" for record in evaluations[-2:]] == [True, True]
    last = evaluations[-1]
    assert f"loss {last['loss']:.3f}" in message
    assert read_checkpoint(out / "checkpoint")["train_state"]["step"] == last["step"] - 2
    # Collapsed, it sees no difference between documents.
    assert last["query_cosine"] > 0.95 or last["query_effective_rank"] <= 3


def test_the_out_of_memory_error_names_the_settings_to_lower(checkpoints, collection, tmp_path):
    wide = tmp_path / "wide"
    shutil.copytree(checkpoints["bert"], wide)
    sizes = {"hidden_size": 512, "intermediate_size": 2048}
    config = transformers.BertConfig.from_pretrained(wide, **sizes)
    # Its weights take 25 MB, and with AdamW four times as much.
    transformers.BertModel(config).save_pretrained(wide)
    settings = tables(collection, wide, wide, recipe="contrastive")
    path = write_recipe(tmp_path / "recipe.toml", settings)
    command = Command(
        "train",
        path,
        "--out",
        tmp_path / "run",
        output=tmp_path / "output",
        memory_bytes=15 * 10**7,
    )
    assert command.wait() == 2, command.text
    assert command.refusal == (
        "memory ran out: lower optimiser.micro_batch_size (now 16) or set "
        "document_encoder.gradient_checkpointing, which --resume allows, or start again with a "
        "lower document_encoder.max_tokens or negatives.cache_fraction; there is no checkpoint yet"
    )


@pytest.mark.parametrize(
    ("error", "is_of_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), True),
        (MemoryError(), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_the_out_of_memory_errors_of_every_device_are_recognised(
    error, is_of_memory, make, tmp_path
):
    kind = TrainingStoppedError if is_of_memory else RuntimeError
    with pytest.raises(kind) as caught, memory_errors(memory_advice(make()), tmp_path):
        raise error
    assert (caught.value is error) != is_of_memory


def test_after_a_full_disk_the_run_resumes_from_the_last_checkpoint(make, small_disk, tmp_path):
    out = small_disk / "run"
    settings = make(recipe="contrastive", fine_tuning__epochs=4)
    message = refused(StorageError, settings, out)
    assert "cannot write" in message
    assert "No space left" in message
    state = read_checkpoint(out / "checkpoint")["train_state"]
    assert state["step"] < 16
    # With more room, it goes on.
    elsewhere = Path(shutil.copytree(out, tmp_path / "run"))
    run(settings, elsewhere, resume=True)
    assert records(elsewhere, "step")[-1]["step"] == 16


def test_half_precision_needs_a_gpu(make, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    settings = make(optimiser__precision="fp16")
    message = refused(RecipeError, settings, tmp_path / "run")
    assert message.startswith("precision fp16 needs a GPU")
    with pytest.raises(RecipeError, match="needs a GPU"):
        make_plan(settings, Listener())


def test_a_process_of_several_is_refused(make, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    message = refused(InvalidArgumentError, make(), tmp_path / "run")
    assert message == "a training runs in one process, not under torchrun"
    assert not (tmp_path / "run").exists()


def test_the_final_weights_are_a_mean_with_the_initial_ones(make, tmp_path):
    weights = []
    for average in (0.0, 0.25, 0.5):
        out = tmp_path / f"{average}"
        fine_tuning = {"epochs": 2, "average": average}
        others = {"recipe": "contrastive", "dual_encoder__start": "orthogonal"}
        run(make(**others, fine_tuning=fine_tuning), out)
        weights.append(load_file(out / "query_encoder" / "model.safetensors"))
    for name, trained in weights[0].items():
        quarter, half = (each[name] - trained for each in weights[1:])
        torch.testing.assert_close(half, 2 * quarter, atol=1e-6, rtol=1e-3)
    assert any(not torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


@pytest.mark.parametrize(
    ("kind", "lines", "complaint"),
    [
        (CollectionError, ["q0\tnowhere\t1"], "the document 'nowhere', relevant to the query 'q0'"),
        (TrainingDataError, ["q0\td0\t0"], "no document is relevant to any query: 44 of the 44"),
        (TrainingDataError, [f"q{n}\td{n}\t1" for n in range(8)], "more than 8 are needed"),
    ],
)
def test_data_that_cannot_be_trained_on_are_named_and_leave_no_directory(
    kind, lines, complaint, make, tmp_path
):
    folder = write_collection(tmp_path / "bad")
    content = "\n".join(["query-id\tcorpus-id\tscore", *lines])
    (folder / "qrels" / "train.tsv").write_text(content)
    assert complaint in refused(kind, make(place=folder), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_share_that_leaves_no_negative_leaves_no_directory(make, tmp_path):
    # A batch of two has two negatives: soon both are above the mean.
    negatives = {"samplers": ["uniform"], "per_query": 1, "teacher_share": 1e-9}
    settings = make(recipe="contrastive", negatives=negatives, optimiser__batch_size=2)
    message = refused(TrainingDataError, settings, tmp_path / "run")
    assert "teacher_share leaves no negative" in message
    assert not (tmp_path / "run").exists()


def test_queries_without_a_relevant_document_are_counted_and_left_out(make, tmp_path):
    folder = write_collection(tmp_path / "words")
    with (folder / "queries.jsonl").open("a") as file:
        file.write('\n{"_id": "lonely", "text": "nothing is relevant"}')
    listener = Listener()
    train(make(place=folder, recipe="contrastive"), tmp_path / "run", progress=listener)
    assert any("1 of the 45 queries" in note for note in listener.notes)


def test_too_few_validation_queries_are_refused(make, tmp_path):
    few = write_collection(tmp_path / "few", num_pairs=5)
    settings = make(validation={"data": [{"corpus": str(few), "qrels": "train"}]})
    message = refused(TrainingDataError, settings, tmp_path / "run")
    assert message == "there are 5 validation queries: at least 8 are needed"


def test_a_batch_larger_than_the_training_set_is_the_whole_set(make, tmp_path):
    settings = make(
        recipe="contrastive",
        optimiser={"batch_size": 1000, "warmup_steps": 0},
        negatives={"samplers": ["in_batch"]},
        fine_tuning__epochs=2,
    )
    run(settings, tmp_path / "run")
    assert [record["step"] for record in records(tmp_path / "run", "step")] == [1, 2]
    evaluation = records(tmp_path / "run", "evaluation")[-1]
    assert evaluation["collapsed_loss"] == pytest.approx(math.log(36))
