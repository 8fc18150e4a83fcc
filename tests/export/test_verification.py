"""The verification measures an encoder directory without writing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from export.encoder_directory import export_encoder
from export.errors import ExportError
from export.parity import Parity
from export.quality import QualityChange
from export.report import EncoderReport, VariantReport
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
def collection(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": name, "text": text}) for name, text in DOCUMENTS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "queries.jsonl").write_text("\n".join(lines))
    judged = [f"{name}\t{name}\t1" for name in DOCUMENTS]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return folder


@pytest.fixture
def own(exported_bert: Path, tmp_path: Path) -> Path:
    """An encoder directory of one's own, to alter."""
    return Path(shutil.copytree(exported_bert, tmp_path / "own"))


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def text(report: EncoderReport) -> str:
    console = Console(width=100)
    with console.capture() as captured:
        for table in report.tables():
            console.print(table)
    return captured.get()


def test_the_measurements_agree_with_the_manifest(checkpoints, exported_bert, collection):
    before, stages = content(exported_bert), []
    report = verify_encoder(
        checkpoints["bert"], exported_bert, collection=collection, progress=stages.append
    )
    assert content(exported_bert) == before
    manifest = read_manifest(exported_bert)
    assert report.default == manifest.details["default_precision"]
    assert [variant.precision for variant in report.variants] == ["fp32", "int8", "int8_static"]
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
            assert all(0 < seconds < 1 for seconds in of_length.values())
        if variant.precision == "fp32":
            assert variant.quality is None
        else:
            assert variant.quality == QualityChange("small", "test", 1.0, 1.0)
    assert stages[-1].startswith("Measuring latency on ")


def test_where_there_is_no_fp32_model_quality_is_compared_with_the_models(
    checkpoints, tmp_path, collection
):
    export_encoder(checkpoints["bert"], tmp_path / "out", pooling="mean", precisions=["int8"])
    (variant,) = verify_encoder(
        checkpoints["bert"], tmp_path / "out", collection=collection
    ).variants
    assert variant.precision == "int8"
    assert variant.quality == QualityChange("small", "test", 1.0, 1.0)


def test_only_the_named_precisions_are_measured(checkpoints, exported_bert):
    report = verify_encoder(checkpoints["bert"], exported_bert, precisions=["int8_static"])
    assert [variant.precision for variant in report.variants] == ["int8_static"]


def refused(kind: type[RetrievalError], model: Path, directory: Path, **options) -> str:
    before = content(directory) if directory.is_dir() else {}
    with pytest.raises(kind) as caught:
        verify_encoder(model, directory, **options)
    assert (content(directory) if directory.is_dir() else {}) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_directory_without_an_encoder_is_refused(checkpoints, tmp_path):
    model = checkpoints["bert"]
    assert "is not a directory" in refused(ManifestError, model, tmp_path / "nothing")
    assert "it is no artefact" in refused(ManifestError, model, tmp_path)


def test_an_encoder_of_another_model_or_damaged_is_refused(checkpoints, exported_bert, own):
    message = refused(EmbeddingSpaceMismatch, checkpoints["electra"], exported_bert)
    assert message.startswith(f"{exported_bert} is of the embedding space ")
    assert message.endswith("name the model that it was exported from")
    (own / "model_int8_static.onnx").write_bytes(b"")
    assert "model_int8_static.onnx has 0 bytes" in refused(
        CorruptArtefactError, checkpoints["bert"], own
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_tokens": 9}, "max_tokens 9 contradicts {}, which was exported with 24"),
        ({"pooling": "cls"}, "pooling 'cls' contradicts {}, which was exported with 'mean'"),
    ],
)
def test_other_settings_than_those_of_the_export_are_refused(
    options, problem, checkpoints, exported_bert
):
    message = refused(InvalidArgumentError, checkpoints["bert"], exported_bert, **options)
    assert message == problem.format(exported_bert)


def test_a_precision_that_is_not_there_is_refused(checkpoints, tmp_path):
    export_encoder(checkpoints["bert"], tmp_path / "out", pooling="mean", precisions=["fp32"])
    message = refused(
        InvalidArgumentError, checkpoints["bert"], tmp_path / "out", precisions=["int8_static"]
    )
    assert message == f"{tmp_path / 'out'} has no int8_static model; it has fp32"


def test_a_tokenizer_that_reads_otherwise_is_refused(checkpoints, own):
    manifest = read_manifest(own)
    # The length in the manifest differs from the tokenizer's.
    write_manifest(own, replace(manifest, details={**manifest.details, "max_tokens": 23}))
    message = refused(ExportError, checkpoints["bert"], own)
    assert message.startswith("tokenizer.json reads ")


def test_a_report_names_the_precisions_that_are_not_good_enough():
    good, bad = Parity(9, 2, 24, 0.98, 0.995), Parity(9, 2, 24, 0.5, 0.8)
    report = EncoderReport(
        (VariantReport("int8", 1, good), VariantReport("int8_static", 1, bad)), "int8"
    )
    assert list(report.shortfalls()) == ["int8_static"]
    assert "0.8" in report.shortfalls()["int8_static"]


def test_tables_have_only_what_was_measured():
    parity = Parity(9, 2, 24, 0.98125, 0.99525)
    quality = QualityChange("scifact", "test", 0.6451, 0.6440)
    seconds = {1: {4: 0.00017, 8: 0.00028}, 16: {4: 0.0002, 8: 0.0003}}
    measured = EncoderReport(
        (
            VariantReport("fp32", 90_300_000, Parity(9, 2, 24, 1, 1), None, seconds),
            VariantReport("int8", 23_000_000, parity, quality, seconds),
        ),
        "int8",
    )
    shown = text(measured)
    for expected in (
        "int8 (default)", "0.995250", "0.981250", "23.0", "0.6440", "-0.0011", "0.6451",
        "nDCG@10 by exact search on scifact test", "0.170", "0.300", "threads",
    ):  # fmt: skip
        assert expected in shown
    assert "fp32 (default)" not in shown
    plain = text(EncoderReport((VariantReport("fp32", 1_000_000, parity),), "fp32"))
    assert "nDCG" not in plain
    assert "Latency" not in plain
