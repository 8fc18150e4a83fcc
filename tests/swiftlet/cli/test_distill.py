"""`swiftlet distill` as users run it, with an index of the shipped encoder and a query log."""

import json
from pathlib import Path

import pytest

from swiftlet.corpora.collections import read_documents
from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER, torch_weights
from swiftlet.index.building.build import BuildSettings, build, build_index
from swiftlet.manifest import read_manifest
from swiftlet.progress import Silence
from tests.command_line import refusal, swiftlet

SUBJECTS = ["swiftlets", "caves", "echoes", "nests", "bats", "cliffs", "eggs", "feathers"]
QUESTIONS = ["what are {}", "where to find {} in asia", "how old do {} get", "who collects {}"]


@pytest.fixture(scope="module")
def minilm() -> Path:
    """The weights of all-MiniLM-L6-v2, in the embedding space of the encoders that ship."""
    return torch_weights()


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    """A BEIR folder with a document for each subject, and a log; read only."""
    folder = tmp_path_factory.mktemp("collection")
    (folder / "qrels").mkdir()
    documents = [
        {"_id": name, "title": name, "text": f"All about {name}, their life and their places."}
        for name in SUBJECTS
    ]
    queries = [{"_id": f"q-{name}", "text": f"tell me about {name}"} for name in SUBJECTS]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    qrels = ["query-id\tcorpus-id\tscore", *(f"q-{name}\t{name}\t1" for name in SUBJECTS)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(qrels))
    lines = [question.format(name) for question in QUESTIONS for name in SUBJECTS]
    (folder / "log.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def index(collection, tmp_path_factory) -> Path:
    """The index of the documents; read only."""
    out = tmp_path_factory.mktemp("index") / "index"
    build_index(
        read_documents(collection),
        DEFAULT_ENCODER,
        out,
        BuildSettings(),
        overwrite=False,
        progress=Silence(),
    )
    return out


@pytest.mark.soak
def test_from_a_query_log_to_queries_in_the_index_that_is_there(
    minilm, collection, index, tmp_path
):
    result = swiftlet(
        "distill", "--teacher", minilm, "--layers", "0,5", "--queries", collection / "log.txt",
        "--index", index, "--test-queries", collection, "--ranking", "0.1",
        "--qrels", collection / "qrels" / "test.tsv",
        "--batch-size", "8", "--epochs", "3", "--out", tmp_path / "small",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "its mean cosine with the teacher on 3 texts held out is 0." in result.stdout
    assert "as served" in result.stdout
    overlap = read_manifest(tmp_path / "small").details["overlap"]
    assert [each["searched"] for each in overlap] == ["exact", "as served"]
    assert all(each["teacher_ndcg"] == 1.0 for each in overlap)
    assert all(each["recall_100"] == 1.0 for each in overlap)
    out = tmp_path / "small" / "onnx" / "query_encoder"
    assert f"Next: swiftlet serve {index} --encoder {out}" in result.stdout
    assert read_manifest(out).embedding_space == read_manifest(index).embedding_space
    found = swiftlet("search", index, "tell me about nests", "--encoder", out)
    assert found.exit_code == 0, found.output


def test_an_index_of_another_space_is_refused(index, collection, checkpoints, tmp_path):
    result = swiftlet(
        "distill", "--teacher", checkpoints["bert"], "--pooling", "mean", "--layers", "0",
        "--queries", collection / "log.txt", "--index", index, "--out", tmp_path / "small",
    )  # fmt: skip
    sentence = refusal(result)
    expected = "the teacher gives 32 numbers, the index has 384 (by the encoder 'all-MiniLM-L6-v2')"
    assert sentence.startswith(expected)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ["--layers", "0", "--pooling", "most"],
            "--pooling: there is no pooling 'most'; there are cls",
        ),
        (["--layers", "0,6"], "layer 6 does not exist: "),
        (["--layers", "0", "--epochs", "-1"], "--epochs is -1.0, but should be greater than 0"),
        ([], "the student would be the teacher: name the layers to keep"),
        (
            ["--layers", "0", "--set", "patience=0"],
            "--set patience is 0, but should be greater than",
        ),
        (
            ["--layers", "0", "--set", "colour=red"],
            "colour is not a setting; the settings are teacher, student,",
        ),
        (["--layers", "0", "--ranking", "1"], "the ranking term needs an index"),
        (["--layers", "0", "--index", "nowhere"], "nowhere is not a directory"),
        (["--layers", "0", "--queries", "nowhere.txt"], "nowhere.txt: there is no such file"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(options, expected, minilm, collection, tmp_path):
    out = tmp_path / "small"
    log = collection / "log.txt"
    arguments = ["--teacher", minilm, "--queries", log, "--out", out, *options]
    assert expected in refusal(swiftlet("distill", *arguments))
    assert not out.exists()


def test_a_file_of_vectors_is_to_be_adopted_first(tmp_path):
    file = tmp_path / "v.faiss"
    file.write_bytes(b"IxFI")
    sentence = refusal(swiftlet("distill", "--index", file, "--out", tmp_path / "small"))
    assert f"swiftlet adopt {file} --texts CORPUS" in sentence


def test_teacher_and_texts_are_needed(minilm, tmp_path):
    result = swiftlet("distill", "--teacher", minilm, "--layers", "0", "--out", tmp_path / "small")
    assert refusal(result) == (
        "there are no texts: name queries (--queries), a corpus (--corpus), or both; or learn from "
        "the passages of an index, too (--index INDEX --pairs)"
    )


@pytest.mark.check
def test_an_index_alone_gives_an_encoder_and_a_verdict(tmp_path):
    documents = [
        {"_id": f"{name}-{n}", "text": f"{question.format(name)}, and why?"}
        for name in SUBJECTS
        for n, question in enumerate(QUESTIONS)
    ]
    index, out = tmp_path / "index", tmp_path / "small"
    build(documents, index, language=None)
    result = swiftlet(
        "distill", "--index", index, "--student", LOOKUP_QUERY_ENCODER.name, "--projection-only",
        "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    encoder = out / "onnx" / "query_encoder"
    assert read_manifest(encoder).embedding_space == read_manifest(index).embedding_space
    assert "; their overlap@10 is " in result.stdout
    good = read_manifest(out).details["verdict"]["is_good"]
    assert (f"Next: swiftlet serve {index} --encoder {encoder}" in result.stdout) == good
    assert ("use it: " if good else "not good enough yet: ") in result.stdout
    again = swiftlet("distill", "--index", index, "--out", out, "--resume")
    told = result.stdout[result.stdout.index(f"{encoder}: ") :]
    assert told in again.stdout


def test_an_index_teaches_no_queries_without_a_teacher(index, collection, tmp_path):
    out, log = tmp_path / "small", collection / "log.txt"
    sentence = refusal(swiftlet("distill", "--index", index, "--queries", log, "--out", out))
    assert sentence == "queries need a teacher, which gives their vectors: name it, too"
    few = refusal(swiftlet("distill", "--index", index, "--student", "nowhere", "--out", out))
    assert few.startswith("nowhere ")
    assert refusal(swiftlet("distill", "--out", out)).startswith("there is nothing to imitate")
    assert not out.exists()
