"""Encoders with the tokens of some texts alone."""

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from export.encoder_directory import export_encoder
from export.vocabulary import first_texts
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import CollectionError
from tests.checkpoints import ARCHITECTURES, LETTERS, SIZES, WORDS
from tests.command_line import refusal, swiftlet

TEXTS = ["kalo mine pura", "soti kaka", "12 rape, x"]


@pytest.fixture(scope="module")
def folders(checkpoints, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("unigram") / "model"
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    scored = [(each, -1.0) for each in (*special, *(f"\u2581{word}" for word in WORDS))]
    scored += [(each, -5.0) for each in ("\u2581", *LETTERS)]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    config = BertConfig(vocab_size=len(scored), max_position_embeddings=40, **SIZES)
    BertModel(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=24, bos_token="<s>", eos_token="</s>",
        cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>",
    ).save_pretrained(folder)  # fmt: skip
    return {**checkpoints, "unigram": folder, "look-up": LOOKUP_QUERY_ENCODER}


@pytest.mark.parametrize("kind", ["bert", "electra", "mpnet", "unigram", "look-up"])
def test_texts_of_the_kept_tokens_have_the_same_embeddings_from_a_smaller_table(
    kind, folders, exported, tmp_path
):
    (tmp_path / "queries.txt").write_text("\n".join(TEXTS))
    pooling = () if kind == "look-up" else ("--pooling", "mean")
    given = "export", folders[kind], *pooling, "--precision", "fp32"
    kept = "--vocabulary", tmp_path / "queries.txt"
    of_whole = tmp_path / "whole"
    if kind in ARCHITECTURES:
        of_whole = exported(kind).directory
    else:
        assert swiftlet(*given, "--out", of_whole).exit_code == 0
    done = swiftlet(*given, "--out", tmp_path / "small", *kept)
    assert done.exit_code == 0, done.output
    whole = OnnxEncoder.load(of_whole, precision="fp32")
    small = OnnxEncoder.load(tmp_path / "small")
    np.testing.assert_allclose(small.encode(TEXTS), whole.encode(TEXTS), atol=1e-5)
    assert small.manifest.embedding_space == whole.manifest.embedding_space
    sizes = [encoder.manifest.files["model.onnx"].size_bytes for encoder in (small, whole)]
    assert sizes[0] < sizes[1]
    # Other words are read as shorter pieces.
    other = f"lolo {TEXTS[0]}"
    assert small.tokenizer.count(other) > whole.tokenizer.count(other)
    assert np.isfinite(small.encode([other])).all()


def test_a_tokenizer_of_merges_is_refused(folders, tmp_path):
    (tmp_path / "queries.txt").write_text("\n".join(TEXTS))
    refused = swiftlet("export", folders["roberta"], "--pooling", "mean", "--out", tmp_path / "out",
                       "--vocabulary", tmp_path / "queries.txt")  # fmt: skip
    assert "is of the kind BPE" in refusal(refused)
    assert not (tmp_path / "out").exists()


def lines(*records: dict[str, str]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("queries.txt", "\n".join(TEXTS), TEXTS),
        ("queries.tsv", "\n".join(f"q{n}\t{t}" for n, t in enumerate(TEXTS)), TEXTS),
        ("q.jsonl", lines(*({"_id": t, "text": t} for t in TEXTS)), TEXTS),
        ("q.jsonl", lines(*({"query_id": t, "text": t} for t in TEXTS)), TEXTS),
        ("corpus.jsonl", lines({"_id": "d", "title": "kalo", "text": "mine"}), ["kalo mine"]),
        ("corpus.tsv", "d\thttp://x\tkalo\tmine", ["kalo mine"]),
    ],
)
def test_queries_and_corpora_are_read_in_every_form(name, content, texts, tmp_path):
    (tmp_path / name).write_text(content)
    assert first_texts(tmp_path / name) == texts


def test_of_a_folder_the_queries_count_and_else_its_documents(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(lines({"_id": "d", "text": "mine"}))
    (tmp_path / "queries.jsonl").write_text(lines({"_id": "q", "text": "kalo"}))
    assert first_texts(tmp_path) == ["kalo"]
    (tmp_path / "queries.jsonl").unlink()
    assert first_texts(tmp_path) == ["mine"]
    (tmp_path / "corpus.jsonl").rename(tmp_path / "notes.txt")
    assert "mine" in first_texts(tmp_path)[0]


def test_of_many_texts_only_the_first_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("export.vocabulary._MOST_TEXTS", 2)
    records = [{"_id": f"{n}", "text": text} for n, text in enumerate(TEXTS[:2])]
    (tmp_path / "corpus.jsonl").write_text(lines(*records) + "no JSON\n")
    assert first_texts(tmp_path / "corpus.jsonl") == TEXTS[:2]


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
def test_texts_that_cannot_be_read_are_refused_before_the_export(name, content, problem, tmp_path):
    path = tmp_path / (name or "nothing")
    if content is not None:
        path.write_text(content)
    with pytest.raises(CollectionError) as caught:
        export_encoder(tmp_path / "no model", tmp_path / "out", vocabulary=path)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
