"""`swiftlet train` as users run it, up to a search with the trained encoders."""

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.manifest import read_manifest
from tests.command_line import refusal, swiftlet
from tests.runs import tables, write_recipe

Write = Callable[..., Path]


@pytest.fixture(scope="module")
def write(checkpoints, collection) -> Write:
    """Writes a recipe."""

    def write_tables(path: Path, **settings: Any) -> Path:
        content = tables(collection, checkpoints["roberta"], checkpoints["bert"], **settings)
        return write_recipe(path, content)

    return write_tables


@pytest.fixture(scope="module")
def run(write, tmp_path_factory) -> Path:
    """A finished run; read only."""
    folder = tmp_path_factory.mktemp("train")
    recipe = write(folder / "recipe.toml")
    result = swiftlet("train", recipe, "--out", folder / "words", "--set", "seed=4")
    assert result.exit_code == 0, result.output
    assert "the best checkpoint is of step " in result.stdout
    assert "on 8 validation queries nDCG@10 0." in result.stdout
    assert "; nDCG@10 before the training 0." in result.stdout
    return folder / "words"


@pytest.fixture(scope="module")
def encoders(run) -> dict[str, Path]:
    """Both encoders, exported; read only."""
    return {name: run / "onnx" / name for name in ("query_encoder", "document_encoder")}


def test_trained_encoders_index_and_search(run, encoders, collection, tmp_path):
    index = tmp_path / "index"
    arguments = ("--passage-tokens", "16", "--overlap-tokens", "0")
    result = swiftlet(
        "index", collection, "--out", index, "--encoder", encoders["document_encoder"], *arguments
    )
    assert result.exit_code == 0, result.output
    found = swiftlet("search", index, "kalo mine", "--encoder", encoders["query_encoder"])
    assert found.exit_code == 0, found.output
    assert len([line for line in found.stdout.splitlines() if " d" in line]) >= 10
    # The index remembers where its document encoder is, and the query encoder is beside it.
    alone = swiftlet("search", index, "kalo mine")
    assert alone.stdout.splitlines()[:20] == found.stdout.splitlines()[:20]
    added = swiftlet("add", index, collection / "corpus.jsonl")
    assert added.exit_code == 0, added.output
    evaluated = swiftlet(
        "evaluate", index, "--encoder", encoders["query_encoder"],
        "--queries", collection, "--qrels", collection / "qrels" / "train.tsv",
    )  # fmt: skip
    assert evaluated.exit_code == 0, evaluated.output
    # The encoder that ships has no part in this.
    wrong = swiftlet("search", index, "kalo", "--encoder", DEFAULT_ENCODER.name)
    assert "gives 384 numbers, the index has 32" in refusal(wrong)


def test_a_training_that_brings_a_gain_goes_on_to_an_index(write, tmp_path):
    recipe = write(tmp_path / "recipe.toml", recipe="contrastive", fine_tuning={"epochs": 10})
    result = swiftlet("train", recipe, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "brought no gain" not in result.stdout
    exported = tmp_path / "run" / "onnx" / "document_encoder"
    assert f"Next: swiftlet index CORPUS --out INDEX --encoder {exported}" in result.stdout


def test_a_training_that_brings_no_gain_says_so(write, tmp_path):
    recipe = write(tmp_path / "recipe.toml", recipe="contrastive", fine_tuning={"max_steps": 1})
    rate = ("--set", "optimiser.learning_rate=1e-30")
    result = swiftlet("train", recipe, "--out", tmp_path / "run", *rate)
    assert result.exit_code == 0, result.output
    assert "brought no gain: train longer, or keep the encoders that it began" in result.stdout
    assert "Next:" not in result.stdout


def test_a_run_in_place_of_a_model_is_refused_with_its_models(run, write, collection, tmp_path):
    onnx, index = run / "onnx", tmp_path / "index"
    said = refusal(swiftlet("index", collection, "--out", index, "--encoder", run))
    models = f"{onnx / 'document_encoder'} or {onnx / 'query_encoder'}"
    assert f"{run} is of kind 'model', but 'encoder' is needed: take {models} of this" in said
    recipe = write(tmp_path / "recipe.toml", document_encoder={"model": f"{run}"})
    said = refusal(swiftlet("train", recipe, "--out", tmp_path / "run"))
    assert f"{run} is a training run, not a model: take {run / 'query_encoder'} or" in said


def test_a_pair_becomes_a_router_and_is_exported_again(run, encoders, tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "export.md").read_text("utf-8")
    (program,) = re.findall("```python\n(.+?)```", page, re.DOTALL)
    program = program.replace('f"run/', f'f"{run}/').replace('"router"', f'"{tmp_path}/router"')
    exec(program, {})
    result = swiftlet("export", tmp_path / "router", "--out", tmp_path, "--precision", "fp32")
    assert result.exit_code == 0, result.output
    for name, directory in encoders.items():
        again, first = (
            OnnxEncoder.load(each, precision="fp32").encode(["kalo mine"])
            for each in (tmp_path / name, directory)
        )
        assert again == pytest.approx(first, abs=1e-5)


def test_an_index_whose_encoder_was_moved_names_it(encoders, collection, tmp_path):
    moved, index = tmp_path / "document_encoder", tmp_path / "index"
    shutil.copytree(encoders["document_encoder"], moved)
    swiftlet("index", collection, "--out", index, "--encoder", moved, "--truncate")
    alone = refusal(swiftlet("search", index, "kalo"))
    assert alone.startswith(
        "the index was built by the encoder 'words-document-encoder', which rea"
    )
    moved.rename(tmp_path / "elsewhere")
    for command in (["search", index, "kalo"], ["add", index, collection / "corpus.jsonl"]):
        sentence = refusal(swiftlet(*command))
        assert f"which is no longer in {moved}: name it with --encoder" in sentence
    found = swiftlet("search", index, "kalo", "--encoder", encoders["query_encoder"])
    assert found.exit_code == 0, found.output


def test_both_encoders_have_their_own_names_and_share_one_space(run, encoders):
    space = read_manifest(run, "model").embedding_space
    for name, directory in encoders.items():
        manifest = read_manifest(directory, "encoder")
        assert manifest.embedding_space == space
        assert manifest.details["name"] == f"words-{name.replace('_', '-')}"
        assert manifest.details["source"] == manifest.details["name"]


def test_an_encoder_that_was_altered_since_is_not_exported(run, tmp_path):
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    weights = copy / "query_encoder" / "2_Dense" / "model.safetensors"
    altered = bytearray(weights.read_bytes())
    altered[-1] ^= 1
    weights.write_bytes(altered)
    sentence = refusal(swiftlet("export", copy / "query_encoder", "--out", tmp_path / "out"))
    assert sentence.startswith(f"{weights} has been altered")


def test_an_encoder_that_was_taken_away_from_its_run_is_a_space_of_its_own(run, tmp_path):
    copy = Path(shutil.copytree(run / "query_encoder", tmp_path / "query_encoder"))
    result = swiftlet("export", copy, "--out", tmp_path / "out", "--precision", "fp32")
    assert result.exit_code == 0, result.output
    manifest = read_manifest(tmp_path / "out")
    assert manifest.embedding_space != read_manifest(run).embedding_space
    assert manifest.details["name"] == "query_encoder"


def test_a_dry_run_prints_sizes_memory_and_steps_and_writes_nothing(write, tmp_path, monkeypatch):
    recipe = write(tmp_path / "recipe.toml")
    monkeypatch.chdir(tmp_path)
    result = swiftlet("train", recipe, "--out", tmp_path / "run", "--dry-run")
    assert result.exit_code == 0, result.output
    rows = [line.strip("│ ") for line in result.stdout.splitlines()]
    for name, value in (
        ("pairs to train on", "36 of 36 queries"),
        ("passages", "44"),
        ("validation queries", "8"),
        ("query encoder", "parameters"),
        ("embeddings", "32 dimensions"),
        ("steps of alignment", "at most 8"),
        ("steps of fine-tuning", "at most 8"),
        ("memory, about", "GiB"),
    ):
        assert value in next(row for row in rows if row.startswith(f"{name}  "))
    assert [entry.name for entry in tmp_path.iterdir()] == ["recipe.toml"]
    result = swiftlet("train", recipe, "--dry-run", "--set", "optimiser.batch_size=99")
    assert "36 pairs: a batch has them all" in result.stdout


def test_a_run_that_leaves_documents_as_they_are_says_that_indexes_can_be_searched(
    write, checkpoints, tmp_path
):
    recipe = write(
        tmp_path / "recipe.toml",
        recipe="adore",
        query_encoder={"model": f"{checkpoints['bert']}", "pooling": "mean"},
        dual_encoder={"projection": "none"},
        negatives={"samplers": ["dynamic"], "per_query": 4},
    )
    result = swiftlet("train", recipe, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    query_encoder = tmp_path / "run" / "onnx" / "query_encoder"
    assert f"Next: swiftlet serve INDEX --encoder {query_encoder}" in result.stdout


def test_a_run_shows_its_stages_and_the_skipped_lines(write, tmp_path):
    recipe = write(tmp_path / "recipe.toml", alignment={"max_epochs": 3, "threshold": 1e6})
    result = swiftlet("train", recipe, "--out", tmp_path / "run")
    assert "alignment ends at step 0: the KL estimate" in result.stderr
    assert "Stage 2: fine-tuning" in result.stderr


def test_resuming_a_finished_run_exports_what_an_interruption_has_left_out(run, write, tmp_path):
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    shutil.rmtree(copy / "onnx" / "document_encoder")
    recipe = write(tmp_path / "recipe.toml")
    resumed = swiftlet("train", recipe, "--out", copy, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert f"{copy} has a finished run, so nothing is trained" in " ".join(resumed.output.split())
    exported = [read_manifest(of / "onnx" / "document_encoder", "encoder") for of in (run, copy)]
    assert exported[0].embedding_space == exported[1].embedding_space
    assert (copy / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()


def test_a_missing_tensorboard_is_reported_with_how_to_install_it(write, tmp_path, monkeypatch):
    assert importlib.util.find_spec("tensorboard") is not None
    # As Python marks a package that is not installed.
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    recipe = write(tmp_path / "recipe.toml", tensorboard=True)
    sentence = refusal(swiftlet("train", recipe, "--out", tmp_path / "run"))
    assert sentence.startswith("the package 'tensorboard")
    assert sentence.endswith("'.[tensorboard]' in Swiftlet's source")
