"""An exported encoder computes the same as torch."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from export.encoder_directory import export_encoder
from export.errors import ExportError
from export.settings import EncoderSettings
from export.source import load_source
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.manifest import FileEntry, read_manifest
from training.model.fingerprint import embedding_space
from training.model.quiet import quiet

TEXTS = ["kalo", "kalo mine pura soti", "Rasé, 12 (mi-lo)!", "tira " * 90, "unseen wörds 東京"]


def torch_embeddings(folder: Path, pooling: str | None) -> np.ndarray:
    model = load_source(folder, pooling=pooling).model
    with quiet():
        return np.stack([model.encode([text], show_progress_bar=False)[0] for text in TEXTS])


KINDS = ["bert", "distilbert", "electra", "mpnet", "roberta", "cls", "projecting"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_gives_the_embeddings_of_torch(kind, exported):
    model, pooling, directory = exported(kind)
    expected = torch_embeddings(model, pooling)
    encoder = OnnxEncoder.load(directory, precision="fp32")
    embeddings = encoder.encode(TEXTS)
    np.testing.assert_allclose(embeddings, expected, atol=2e-5)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    assert embeddings.shape[1] == encoder.dim == (16 if kind == "projecting" else 32)


@pytest.mark.parametrize("kind", KINDS)
def test_int8_is_the_default_and_near_with_its_parity_in_the_manifest(kind, exported):
    directory = exported(kind).directory
    details = read_manifest(directory, "encoder").details
    fp32 = OnnxEncoder.load(directory, precision="fp32").encode(TEXTS)
    int8 = OnnxEncoder.load(directory).encode(TEXTS)
    assert details["precisions"] == ["fp32", "int8"]
    assert details["default_precision"] == "int8"
    cosines = (fp32 * int8).sum(axis=1)
    assert cosines.min() > 0.98
    assert not np.array_equal(fp32, int8)
    assert details["parity"]["fp32"]["min_cosine"] >= 0.99999
    assert 0.98 < details["parity"]["int8"]["min_cosine"] < 1
    assert details["parity"]["int8"]["shortest_tokens"] <= 3
    assert details["parity"]["int8"]["longest_tokens"] == details["max_tokens"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", ["model.onnx", "model_int8.onnx"])
def test_the_graph_is_one_file_with_one_output_and_free_axes(kind, file, exported):
    directory = exported(kind).directory
    model = onnx.load_model(directory / file, load_external_data=False)
    (output,) = model.graph.output
    assert output.name == "embedding"
    inputs = [node.name for node in model.graph.input]
    assert (
        inputs == read_manifest(directory).details["input_names"] == ["input_ids", "attention_mask"]
    )
    for node in model.graph.input:
        assert [dim.dim_param for dim in node.type.tensor_type.shape.dim] == ["batch", "tokens"]
    assert not [t for t in model.graph.initializer if t.data_location == t.EXTERNAL]
    assert {entry.name for entry in directory.iterdir()} == {
        "manifest.json", "model.onnx", "model_int8.onnx", "tokenizer.json", "canonical.json",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
def test_neither_padding_nor_neighbours_change_an_fp32_embedding(kind, exported):
    directory = exported(kind).directory
    encoder = OnnxEncoder.load(directory, precision="fp32")
    ids = encoder.tokenise("kalo mine pura")
    padding = 1 if kind in {"roberta", "mpnet"} else 0
    rows = [[*ids, *[padding] * 5], [*ids, *encoder.tokenise("soti tira")][: len(ids) + 5]]
    rows[1] += [padding] * (len(rows[0]) - len(rows[1]))
    mask = np.array([[1] * len(ids) + [0] * 5, [1] * len(rows[1])])
    session = onnxruntime.InferenceSession(directory / "model.onnx")
    (batch,) = session.run(None, {"input_ids": np.array(rows), "attention_mask": mask})
    np.testing.assert_allclose(batch[0], encoder.embed(ids), atol=1e-5)


def test_an_export_is_the_same_to_the_byte_each_time_and_hashes_each_file_once(
    exported, tmp_path, monkeypatch
):
    model, pooling, directory = exported("bert")
    stages: list[str] = []
    hashed: list[str] = []
    of = FileEntry.of

    def counted(path: Path, algorithm: str = "blake3") -> FileEntry:
        hashed.append(path.name)
        return of(path, algorithm)

    monkeypatch.setattr(FileEntry, "of", counted)
    settings = EncoderSettings(pooling=pooling)
    export_encoder(model, tmp_path / "again", settings, progress=stages.append)
    assert read_manifest(tmp_path / "again") == read_manifest(directory)
    assert "Quantising" in stages
    assert sorted(hashed) == sorted(read_manifest(directory).files)


def test_the_tokenizer_truncates_to_the_max_tokens_of_the_export(checkpoints, tmp_path, capfd):
    manifest = export_encoder(
        checkpoints["bert"], tmp_path / "short", pooling="cls", max_tokens=7, precisions=["fp32"]
    )
    encoder = OnnxEncoder.load(tmp_path / "short")
    assert encoder.max_tokens == manifest.details["max_tokens"] == 7
    assert len(encoder.tokenise("kalo " * 50)) == 7
    assert json.loads((tmp_path / "short/tokenizer.json").read_text())["padding"] is None
    assert "model_int8.onnx" not in manifest.files
    assert capfd.readouterr() == ("", "")


def test_a_graph_that_differs_from_torch_is_refused(checkpoints, tmp_path, monkeypatch):
    monkeypatch.setattr("export.candidates.SMALLEST_FP32_COSINE", 1.5)
    with pytest.raises(ExportError, match=r"smallest cosine is 1\.0.*at least 1\.5"):
        export_encoder(checkpoints["bert"], tmp_path / "out", pooling="mean")
    assert not list(tmp_path.iterdir())


def test_the_embedding_space_is_that_of_the_weights_not_of_their_files(exported, tmp_path):
    model, pooling, directory = exported("bert")
    source = load_source(model, pooling=pooling)
    with quiet():
        source.model.save(str(tmp_path / "saved"))
    again = export_encoder(tmp_path / "saved", tmp_path / "out", precisions=["fp32"])
    assert again.embedding_space == read_manifest(directory).embedding_space
    spaces = {read_manifest(exported(kind).directory).embedding_space for kind in KINDS}
    assert len(spaces) == len(KINDS)
    before = embedding_space(source.model)
    with torch.no_grad():
        source.model[0].auto_model.encoder.layer[1].output.dense.bias[3] += 1e-3
    assert embedding_space(source.model) != before


def test_a_query_encoder_may_belong_to_the_space_of_another(checkpoints, tmp_path):
    manifest = export_encoder(
        checkpoints["bert"], tmp_path / "out", pooling="mean", precisions=["fp32"], space="ab" * 32
    )
    assert manifest.embedding_space == "ab" * 32
    assert OnnxEncoder.load(tmp_path / "out").embedding_space == "ab" * 32
