"""A student has layers of its teacher, or is another checkpoint with a projection."""

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

from swiftlet.errors import InvalidArgumentError
from tests.checkpoints import SIZES
from training.distillation.settings import Distillation
from training.distillation.student import Student
from training.model.towers import Tower, TowerSettings

WIDTH = SIZES["hidden_size"]
TEXTS = ["kalo mine", "pura soti kami", "lolo"]


def settings(teacher: Path, **values: object) -> Distillation:
    defaults = {"teacher": str(teacher), "queries": ("log.txt",), "pooling": "mean"}
    return Distillation(**(defaults | values))  # type: ignore[arg-type]


def test_a_part_of_the_teacher_keeps_its_embeddings_and_its_pooling(checkpoints):
    teacher = Tower.load(TowerSettings(model=checkpoints["bert"], pooling="mean"))
    student = Student.make(settings(checkpoints["bert"], layers=(1,)), WIDTH)
    assert student.projection is None
    models = [tower.encoder[0].auto_model for tower in (teacher, student.tower)]
    whole, part = [model.get_input_embeddings().weight for model in models]
    assert torch.equal(whole, part)
    assert len(models[1].encoder.layer) == 1
    kept = models[0].encoder.layer[1].state_dict()
    assert all(torch.equal(kept[n], w) for n, w in models[1].encoder.layer[0].state_dict().items())


def test_without_a_projection_a_student_of_another_width_is_refused(checkpoints):
    wider = settings(checkpoints["bert"], student=str(checkpoints["distilbert"]), project=False)
    with pytest.raises(
        InvalidArgumentError,
        match=r"the student is 32 wide and the teacher 16: without a projection they must be equal",
    ):
        Student.make(wider, 16)


def test_the_saved_encoder_is_the_trained_one(checkpoints, tmp_path):
    student = Student.make(
        settings(checkpoints["bert"], student=str(checkpoints["distilbert"])), 48
    ).eval()
    student.save(tmp_path / "encoder")
    loaded = SentenceTransformer(str(tmp_path / "encoder"), device="cpu")
    found = torch.from_numpy(loaded.encode(TEXTS))
    outputs = student(student.tower.tokenise(TEXTS)).detach()
    torch.testing.assert_close(found, torch.nn.functional.normalize(outputs, dim=-1))


def test_a_lookup_begins_with_the_outputs_of_the_teacher_for_single_tokens(checkpoints):
    teacher = Tower.load(TowerSettings(model=checkpoints["bert"], pooling="mean")).eval()
    student = Student.lookup(teacher)
    features = student.tower.tokenise(["kalo mine", "lolo"])
    assert features["attention_mask"].tolist() == [[1, 1], [1, 0]]  # without special tokens
    alone = teacher(teacher.tokenise(["kalo", "mine", "lolo"]))
    expected = torch.stack([alone[:2].mean(dim=0), alone[2]])
    torch.testing.assert_close(student(features), expected)
