"""The verification measures an encoder directory without writing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from export.encoder_directory import export_encoder
from export.errors import ExportError
from export.quality import QualityChange
from export.report import EncoderReport
from export.verification import verify_encoder
from swiftlet.errors import (
    CorruptArtefactError,
    EmbeddingSpaceMismatch,
    InvalidArgumentError,
    ManifestError,
    RetrievalError,
)
from swiftlet.manifest import read_manifest, write_manifest
from swiftlet.processors import available_processors

DOCUMENTS = {"a": "kalo mine", "b": "pura soti tira", "c": "lomi kami sora", "d": "neti rapu"}


@pytest.fixture
def collection(tmp_path) -> Path:
    folder = tmp_path / "small"
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": name, "text": text}) for name, text in DOCUMENTS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "queries.jsonl").write_text("\n".join(lines))
    judged = [f"{name}\t{name}\t1" for name in DOCUMENTS]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return folder


@pytest.fixture
def own(exported_bert, tmp_path) -> Path:
    """An encoder directory of one's own, to alter."""
    return Path(shutil.copytree(exported_bert, tmp_path / "own"))


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_measurements_agree_with_the_manifest(checkpoints, exported_bert, collection):
    before, stages = content(exported_bert), []
    report = verify_encoder(
        checkpoints["bert"], exported_bert, collection=collection, progress=stages.append
    )
    assert content(exported_bert) == before
    manifest = read_manifest(exported_bert)
    assert report.default == manifest.details["default_precision"]
    assert [variant.precision for variant in report.variants] == ["fp32", "int8"]
    for variant, written in zip(
        report.variants, EncoderReport.of_manifest(manifest).variants, strict=True
    ):
        assert variant.size_bytes == written.size_bytes
        assert variant.parity.mean_cosine == pytest.approx(written.parity.mean_cosine, abs=1e-6)
        assert variant.parity.num_texts == written.parity.num_texts
        assert set(variant.seconds) == {1, available_processors()}
        for of_length in variant.seconds.values():
            # The model reads 24 tokens: 32 and 64 are left out.
            assert list(of_length) == [4, 8, 16]
            assert all(seconds > 0 for seconds in of_length.values())
        expected = None if variant.precision == "fp32" else QualityChange("small", "test", 1.0, 1.0)
        assert variant.quality == expected
    assert stages[-1].startswith("Measuring latency on ")


def test_where_there_is_no_fp32_model_quality_is_compared_with_the_models(
    checkpoints, tmp_path, collection
):
    out = tmp_path / "out"
    manifest = export_encoder(
        checkpoints["bert"], out, pooling="mean", precisions=["int8"], collection=collection
    )
    (variant,) = verify_encoder(checkpoints["bert"], out, collection=collection).variants
    assert variant.precision == "int8"
    assert variant.quality == QualityChange("small", "test", 1.0, 1.0)
    assert EncoderReport.of_manifest(manifest).variants[0].quality == variant.quality


def test_only_the_named_precisions_are_measured(checkpoints, exported_bert):
    report = verify_encoder(checkpoints["bert"], exported_bert, precisions=["fp32"])
    assert [variant.precision for variant in report.variants] == ["fp32"]


def refused(kind: type[RetrievalError], model: Path, directory: Path, **options) -> str:
    before = content(directory) if directory.is_dir() else {}
    with pytest.raises(kind) as caught:
        verify_encoder(model, directory, **options)
    assert (content(directory) if directory.is_dir() else {}) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_tokens": 9}, "max_tokens 9 contradicts {}, which was exported with 24"),
        ({"pooling": "cls"}, "pooling 'cls' contradicts {}, which was exported with 'mean'"),
        ({"precisions": ["int8_static"]}, "{} has no int8_static model; it has fp32 and int8"),
    ],
)
def test_what_contradicts_the_export_is_refused(options, problem, checkpoints, exported_bert):
    message = refused(InvalidArgumentError, checkpoints["bert"], exported_bert, **options)
    assert message == problem.format(exported_bert)


def test_what_is_no_encoder_of_the_model_or_damaged_is_refused(
    checkpoints, exported_bert, own, tmp_path
):
    model = checkpoints["bert"]
    assert "is not a directory" in refused(ManifestError, model, tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert "it is no artefact" in refused(ManifestError, model, tmp_path / "empty")
    message = refused(EmbeddingSpaceMismatch, checkpoints["electra"], exported_bert)
    assert message.startswith(f"{exported_bert} is of the embedding space ")
    assert message.endswith("name the model that it was exported from")
    manifest = read_manifest(own)
    # The length in the manifest differs from the tokenizer's.
    write_manifest(own, replace(manifest, details={**manifest.details, "max_tokens": 23}))
    assert refused(ExportError, model, own).startswith("tokenizer.json reads ")
    (own / "model_int8.onnx").write_bytes(b"")
    assert "model_int8.onnx has 0 bytes" in refused(CorruptArtefactError, model, own)
