"""Calibration reads queries or a corpus, and refuses other input."""

import json

import pytest

from export.calibration import MOST_TEXTS, calibration_texts
from export.encoder_directory import export_encoder
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import CollectionError

QUERIES = ["kalo mine", "pura soti tira", "rasé"]


def lines(*records: dict[str, str]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("queries.txt", "\n".join(QUERIES), QUERIES),
        ("queries.tsv", "\n".join(f"q{n}\t{t}" for n, t in enumerate(QUERIES)), QUERIES),
        ("q.jsonl", lines(*({"_id": t, "text": t} for t in QUERIES)), QUERIES),
        ("q.jsonl", lines(*({"query_id": t, "text": t} for t in QUERIES)), QUERIES),
        ("corpus.jsonl", lines({"_id": "d", "title": "kalo", "text": "mine"}), ["kalo mine"]),
        ("corpus.tsv", "d\thttp://x\tkalo\tmine", ["kalo mine"]),
    ],
)
def test_queries_and_corpora_are_read_in_every_form(name, content, texts, tmp_path):
    (tmp_path / name).write_text(content)
    assert calibration_texts(tmp_path / name) == texts


def test_of_a_folder_the_queries_count_and_else_its_documents(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(lines({"_id": "d", "text": "mine"}))
    (tmp_path / "queries.jsonl").write_text(lines({"_id": "q", "text": "kalo"}))
    assert calibration_texts(tmp_path) == ["kalo"]
    (tmp_path / "queries.jsonl").unlink()
    assert calibration_texts(tmp_path) == ["mine"]
    (tmp_path / "corpus.jsonl").rename(tmp_path / "notes.txt")
    assert "mine" in calibration_texts(tmp_path)[0]


def test_of_many_texts_the_same_few_are_drawn_in_their_order(tmp_path):
    path = tmp_path / "corpus.jsonl"
    # Lines after the first ten thousand are not read.
    records = [{"_id": f"{n}", "text": f"{n:05}"} for n in range(10_000)]
    path.write_text(lines(*records) + "no JSON\n")
    texts = calibration_texts(path)
    assert texts == sorted(texts) == calibration_texts(path)
    assert len(set(texts)) == MOST_TEXTS
    assert texts[0] < "01000"
    assert texts[-1] > "09000"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("empty.jsonl", "", "empty.jsonl: the file is empty"),
        ("empty.txt", "", "empty.txt: the file is empty"),
        ("q.jsonl", '{"query_id": "a", "text": "b"}\n{', "q.jsonl, line 2: "),
        ("d.jsonl", '{"_id": "a", "title": "b", "text": ""}\n{', "d.jsonl, line 2: "),
        ("queries.xls", "a", "queries.xls: not recognised"),
        (None, None, "there is no such file or folder"),
    ],
)
def test_unreadable_calibration_texts_are_refused_before_the_export(
    name, content, problem, checkpoints, tmp_path
):
    path = tmp_path / (name or "nothing")
    if content is not None:
        path.write_text(content)
    with pytest.raises(CollectionError) as caught:
        export_encoder(checkpoints["bert"], tmp_path / "out", pooling="mean", calibrate=path)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_both_forms_of_int8_are_fitted_to_the_texts(checkpoints, exported_bert, tmp_path):
    (tmp_path / "queries.txt").write_text("0123456789 .,:;'\"-()\n" * 3 + "abcdefghij" * 2)
    manifest = export_encoder(
        checkpoints["bert"], tmp_path / "out", pooling="mean", calibrate=tmp_path / "queries.txt"
    )
    plain = OnnxEncoder.load(exported_bert).manifest
    assert manifest.files["model.onnx"] == plain.files["model.onnx"]
    for file in ("model_int8.onnx", "model_int8_static.onnx"):
        assert manifest.files[file].digest != plain.files[file].digest
