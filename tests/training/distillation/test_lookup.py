"""Look-up encoders: distilled, exported and searched with."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from export.encoder_directory import export_encoder
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import load_manifest
from training.model.errors import ModelError
from training.model.towers import Tower, TowerSettings

TEXTS = ["kalo mine", "pura soti kami", "lolo", ""]


@pytest.fixture(scope="module")
def encoder(distil, tmp_path_factory) -> Path:
    """The Sentence Transformers directory of a distilled look-up encoder; read only."""
    out = tmp_path_factory.mktemp("distilled") / "run"
    distil(out, student="lookup", layers=None, batch_size=32, learning_rate=1e-2)
    records = (out / "metrics.jsonl").read_text().splitlines()
    cosines = [r["cosine"] for r in map(json.loads, records) if r["kind"] == "evaluation"]
    assert cosines[-1] > cosines[0] + 0.02
    return out / "query_encoder"


@pytest.fixture
def damaged(encoder, tmp_path) -> Path:
    """A copy to damage; the weights are at the top."""
    return Path(shutil.copytree(encoder, tmp_path / "damaged"))


def test_it_is_exported_without_a_transformer_into_the_space_of_the_teacher(encoder, tmp_path):
    manifest = export_encoder(encoder, tmp_path / "encoder")
    assert manifest.embedding_space == load_manifest(encoder.parent, "model").embedding_space
    graph = onnx.load_model(tmp_path / "encoder" / "model.onnx").graph
    assert {node.op_type for node in graph.node} == {"Gather", "ReduceSum", "LpNormalization"}
    expected = SentenceTransformer(str(encoder), device="cpu").encode(TEXTS)
    fp32 = OnnxEncoder.load(tmp_path / "encoder", precision="fp32")
    np.testing.assert_allclose(fp32.encode(TEXTS), expected, atol=1e-5)
    int8 = OnnxEncoder.load(tmp_path / "encoder", precision="int8")
    assert (int8.encode(TEXTS[:3]) * expected[:3]).sum(axis=1).min() > 0.999


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_one_that_was_exported_is_trained_further(encoder, distil, tmp_path, precision):
    exported = tmp_path / "encoder"
    export_encoder(encoder, exported, precisions=[precision])
    found = Tower.load(TowerSettings(model=exported))
    before = Tower.load(TowerSettings(model=encoder))
    table, expected = (dict(each.named_parameters()) for each in (found, before))
    for name, weights in expected.items():
        largest = weights.abs().max(dim=1, keepdim=True)[0]
        bound = largest / (253 if precision == "int8" else 1e6)
        assert ((table[name] - weights).abs() <= bound).all()
    distil(tmp_path / "run", student=str(exported), layers=None, epochs=0.5)
    settings = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert settings["distance"] == "cosine"


def test_an_exported_encoder_teaches_and_an_average_keeps_a_share_of_the_student(
    encoder, teacher, distil, tmp_path
):
    student, exported = tmp_path / "student", tmp_path / "teacher"
    export_encoder(encoder, student, precisions=["fp32"])
    space = export_encoder(teacher, exported, precisions=["fp32"]).embedding_space
    options = {"teacher": str(exported), "student": str(student), "layers": None}
    tables = [Tower.load(TowerSettings(model=student))]
    for name, average in (("whole", 0.0), ("mixed", 0.25)):
        outcome = distil(tmp_path / name, **options, average=average, epochs=2.0)
        assert outcome.cosine > 0
        assert load_manifest(tmp_path / name, "model").embedding_space == space
        tables.append(Tower.load(TowerSettings(model=tmp_path / name / "query_encoder")))
    before, whole, mixed = (next(each.parameters()).detach() for each in tables)
    assert (whole - before).abs().max() > 1e-3
    torch.testing.assert_close(mixed, 0.25 * before + 0.75 * whole)
    with pytest.raises(InvalidArgumentError, match="a new look-up table begins with the model"):
        distil(tmp_path / "new", **(options | {"student": "lookup"}))


def test_it_is_a_student_again_and_keeps_its_truncation(encoder):
    tower = Tower.load(TowerSettings(model=encoder))
    long = "lolo " * 100
    assert tower.tokenise([long])["input_ids"].shape == (1, tower.max_tokens)
    for name, value in {"layers": (0,), "pooling": "cls", "dropout": 0.1}.items():
        with pytest.raises(
            InvalidArgumentError, match=f"is a look-up encoder, which has no {name}"
        ):
            Tower.load(TowerSettings(model=encoder, **{name: value}))  # type: ignore[arg-type]


def test_a_table_that_does_not_fit_the_vocabulary_is_refused(damaged):
    (weights,) = damaged.rglob("model.safetensors")
    table = load_file(weights)["embedding.weight"]
    save_file({"embedding.weight": table[:-1].contiguous()}, weights)
    with pytest.raises(ModelError, match=r"gives 'titi' the number \d+, but the table has vectors"):
        Tower.load(TowerSettings(model=damaged))
    table[7, 3] = torch.nan
    save_file({"embedding.weight": table}, weights)
    with pytest.raises(ModelError, match="a number in row 7 of its table that is not finite"):
        Tower.load(TowerSettings(model=damaged))
