"""Encoders with the tokens of some texts alone."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from tests.checkpoints import LETTERS, SIZES, WORDS
from tests.command_line import refusal, swiftlet

TEXTS = ["kalo mine pura", "soti kaka", "12 rape, x"]


@pytest.fixture(scope="module")
def folders(
    checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
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
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "queries.txt").write_text("\n".join(TEXTS))
    pooling = () if kind == "look-up" else ("--pooling", "mean")
    given = "export", folders[kind], *pooling, "--precision", "fp32"
    kept = "--vocabulary", tmp_path / "queries.txt"
    for out, others in ("whole", ()), ("small", kept):
        done = swiftlet(*given, "--out", tmp_path / out, *others)
        assert done.exit_code == 0, done.output
    whole, small = (OnnxEncoder.load(tmp_path / name) for name in ("whole", "small"))
    np.testing.assert_allclose(small.encode(TEXTS), whole.encode(TEXTS), atol=1e-5)
    assert small.manifest.embedding_space == whole.manifest.embedding_space
    sizes = [encoder.manifest.files["model.onnx"].size_bytes for encoder in (small, whole)]
    assert sizes[0] < sizes[1]
    # Other words are read as shorter pieces.
    other = f"lolo {TEXTS[0]}"
    assert small.tokenizer.count(other) > whole.tokenizer.count(other)
    assert np.isfinite(small.encode([other])).all()


def test_a_tokenizer_of_merges_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("\n".join(TEXTS))
    refused = swiftlet("export", folders["roberta"], "--pooling", "mean", "--out", tmp_path / "out",
                       "--vocabulary", tmp_path / "queries.txt")  # fmt: skip
    assert "is of the kind BPE" in refusal(refused)
    assert not (tmp_path / "out").exists()
