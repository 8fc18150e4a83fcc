"""Whole distillations."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from export.encoder_directory import export_encoder
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import load_manifest
from tests.runs import Listener, records
from tests.small_disk import small_disk
from training.distillation.settings import Distillation
from training.errors import RecipeError, TrainingStoppedError
from training.model.fingerprint import embedding_space
from training.model.towers import Tower, TowerSettings
from training.model.trained import trained_encoder

__all__ = ["small_disk"]

TEXTS = ["kalo mine", "pura soti kami", "lolo"]


@pytest.fixture(scope="module")
def run(distil, tmp_path_factory) -> Path:
    """A finished run; read only."""
    out = tmp_path_factory.mktemp("distilled") / "run"
    distil(out)
    return out


def evaluations(run: Path) -> list[dict[str, float]]:
    return [record for record in records(run) if record["kind"] == "evaluation"]


def test_the_student_comes_closer_to_the_teacher(run, teacher):
    cosines = [record["cosine"] for record in evaluations(run)]
    assert cosines[-1] > cosines[0] + 0.02
    manifest = load_manifest(run, "model")
    assert manifest.details["best"]["cosine"] == max(cosines)
    assert manifest.details["num_held_out"] == 38  # a tenth of the distinct ones
    student, whole = (
        SentenceTransformer(str(folder), device="cpu")
        for folder in (run / "query_encoder", teacher)
    )
    again = (student.encode(TEXTS) * whole.encode(TEXTS)).sum(axis=1)
    assert again.min() > cosines[0]


def test_a_finished_run_is_an_artefact_without_checkpoints(run):
    assert sorted(entry.name for entry in run.iterdir()) == [
        "manifest.json", "metrics.jsonl", "query_encoder", "recipe.json"
    ]  # fmt: skip
    assert (run.parent / "teacher-embeddings").is_dir()


def test_its_encoder_is_exported_into_the_space_of_the_teacher(run, teacher, tmp_path):
    tower = Tower.load(TowerSettings(model=teacher))
    expected = embedding_space(tower.with_projection(None))
    manifest = export_encoder(run / "query_encoder", tmp_path / "encoder", precisions=["fp32"])
    assert manifest.embedding_space == expected
    assert manifest.details["name"] == "run-query-encoder"
    exported = OnnxEncoder.load(tmp_path / "encoder")
    student = SentenceTransformer(str(run / "query_encoder"), device="cpu")
    np.testing.assert_allclose(exported.encode(TEXTS), student.encode(TEXTS), atol=1e-5)


def test_a_student_can_teach_and_stays_in_the_space(run, distil, tmp_path):
    trained = trained_encoder(run / "query_encoder")
    assert trained is not None
    distil(tmp_path / "second", teacher=str(run / "query_encoder"), epochs=0.1)
    manifest = load_manifest(tmp_path / "second", "model")
    assert manifest.embedding_space == trained.embedding_space


def test_other_students_reuse_the_embeddings_of_the_teacher(distil, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    distil(tmp_path / "first", teacher_embeddings=kept, epochs=0.1)
    before = {path: path.read_bytes() for path in kept.iterdir()}
    monkeypatch.setattr(
        "training.distillation.teacher.Teacher.encode",
        lambda *_: pytest.fail("the teacher was asked again"),
    )
    distil(tmp_path / "second", teacher_embeddings=kept, epochs=0.1, layers=(1,))
    assert {path: path.read_bytes() for path in kept.iterdir()} == before


def test_embeddings_of_one_precision_are_not_reused_in_another(distil, tmp_path):
    kept = tmp_path / "kept"
    for precision in ("fp32", "bf16"):
        distil(tmp_path / precision, teacher_embeddings=kept, precision=precision, epochs=0.1)
    first, second = (np.fromfile(path, np.float32) for path in sorted(kept.glob("*.outputs")))
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(first, second, atol=0.05)


def test_another_checkpoint_begins_near_and_comes_nearer(distil, checkpoints, tmp_path):
    others = {"student": str(checkpoints["electra"]), "pooling": "mean", "distance": "cosine"}
    distil(tmp_path / "run", layers=None, **others)
    cosines = [record["cosine"] for record in evaluations(tmp_path / "run")]
    assert cosines[0] > 0.5
    assert cosines[-1] > cosines[0]
    assert (tmp_path / "run" / "query_encoder" / "2_Dense").is_dir()


def test_it_ends_when_it_comes_no_closer_and_keeps_the_best(distil, tmp_path):
    listener = Listener()
    # A rate at which everything is unlearnt, once the warm-up is over.
    outcome = distil(
        tmp_path / "run",
        listener,
        learning_rate=0.5,
        schedule="constant",
        epochs=40.0,
        patience=2,
    )
    measured = evaluations(tmp_path / "run")
    assert len(measured) < 40 * 22 // 15
    assert outcome.cosine == max(record["cosine"] for record in measured)
    assert [record["step"] for record in measured][-3] == outcome.best_step
    assert any("has not risen in the last 2 evaluation(s)" in note for note in listener.notes)


def test_a_resumed_run_gives_the_same_result(run, distil, tmp_path, monkeypatch):
    out = tmp_path / "run"
    listener = Listener()

    def interrupt(text: str) -> None:
        if len(evaluations(out)) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(listener, "describe", interrupt)
    with pytest.raises(KeyboardInterrupt):
        distil(out, listener)
    assert not (out / "manifest.json").exists()
    with pytest.raises(
        InvalidArgumentError, match="has an unfinished run; pass --resume to continue"
    ):
        distil(out)
    with pytest.raises(RecipeError, match=r"another recipe: layers \[0\], not \[1\]: use"):
        distil(out, resume=True, layers=(1,))
    copy = Path(shutil.copytree(out, tmp_path / "copy"))
    distil(out, resume=True)
    same = [{k: v for k, v in r.items() if k != "seconds"} for r in records(run)]
    assert [{k: v for k, v in r.items() if k != "seconds"} for r in records(out)] == same
    weights = Path("query_encoder") / "model.safetensors"
    assert (out / weights).read_bytes() == (run / weights).read_bytes()
    finished = distil(copy, finish=True)
    measured = evaluations(copy)
    assert len(measured) == 2  # the third was interrupted before its checkpoint
    assert finished.best_step == max(measured, key=lambda each: each["cosine"])["step"]
    assert (copy / "manifest.json").exists()


def test_the_error_for_a_loss_that_is_not_finite_names_the_step(distil, tmp_path):
    with pytest.raises(
        TrainingStoppedError,
        match=r"is not a finite number at step \d+ of stage distillation: lower the learning "
        r"rate.*; the last checkpoint",
    ):
        distil(tmp_path / "run", learning_rate=1e30, schedule="constant")
    assert (tmp_path / "run" / "checkpoint" / "manifest.json").is_file()


def test_a_student_that_is_not_finite_after_its_last_step_is_refused(distil, tmp_path):
    with pytest.raises(TrainingStoppedError, match="an embedding is not a finite number at step 1"):
        distil(tmp_path / "run", learning_rate=1e30, warmup_steps=0, epochs=0.01)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"layers": None}, "the student would be the teacher"),
        ({"queries": ()}, "there are no texts"),
        ({"ranking": 1.0}, "the ranking term needs an index"),
        ({"ranking_teacher": "reranker"}, "is for the ranking term: set ranking to 1"),
        ({"layers": (-1,)}, "greater than or equal to 0"),
        ({"epochs": 0.0}, "greater than 0"),
        ({"layers": None, "student": "other", "average": 0.5}, "a new projection has none"),
        ({"student": "lookup"}, "no layers, pooling or projection"),
        ({"student": "lookup", "layers": None, "pooling": "cls"}, "no layers, pooling or proj"),
        ({"student": "lookup", "layers": None, "project": True}, "no layers, pooling or proj"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, sentence, teacher):
    defaults = {"teacher": str(teacher), "queries": ("log.txt",), "layers": (0,)}
    with pytest.raises(ValueError, match=sentence):
        Distillation(**(defaults | options))  # type: ignore[arg-type]


def test_an_index_that_is_only_compared_may_come_later(teacher):
    settings = Distillation(teacher=str(teacher), queries=("log.txt",), layers=(0,))
    assert "index" in settings.may_change()
    ranked = settings.model_copy(update={"index": "index", "ranking": 1.0})
    assert "index" not in ranked.may_change()
