"""Cross-encoders that are exported to re-rankers."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder as Reference

from export.errors import ExportError
from export.reranker_directory import export_reranker
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.errors import (
    CorruptArtefactError,
    InvalidArgumentError,
    ManifestError,
)
from swiftlet.manifest import describe_files, read_manifest, write_manifest
from tests.command_line import refusal, swiftlet
from training.model.cross_encoder import CrossEncoder, Pair
from training.model.errors import ModelError
from training.model.towers import TowerSettings

MAX_TOKENS = 32
PAIRS = [
    ("how do bees dance?", "Bees tell others where flowers are by a dance."),
    ("how do bees dance?", "Steel bridges expand in summer. " * 60),
    ("Zürich — naïve façade " * 40, "東京タワーは333メートル。"),
    ("x", ""),
]


def made(folder: Path, model: Path) -> Path:
    """A cross-encoder with a random head."""
    torch.manual_seed(0)
    CrossEncoder.load(TowerSettings(model=model, max_tokens=MAX_TOKENS)).save(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(checkpoints, tmp_path_factory) -> Path:
    """A tiny cross-encoder; read only."""
    return made(tmp_path_factory.mktemp("tiny") / "cross-encoder", checkpoints["bert"])


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A cross-encoder of the shipped weights; read only."""
    return made(tmp_path_factory.mktemp("cross") / "cross-encoder", DEFAULT_QUERY_ENCODER)


@pytest.fixture(scope="module")
def reranker(model, tmp_path_factory) -> Path:
    """Its re-ranker directory; read only."""
    out = tmp_path_factory.mktemp("reranker") / "reranker"
    export_reranker(model, out)
    return out


def test_scores_are_those_of_sentence_transformers(model, reranker):
    reference = Reference(str(model), device="cpu", max_length=MAX_TOKENS)
    expected = reference.predict(PAIRS, convert_to_numpy=True)
    exact = OnnxReranker.load(reranker, precision="fp32")
    assert [exact.score(*pair) for pair in PAIRS] == pytest.approx(expected, abs=1e-5)
    fast = OnnxReranker.load(reranker)
    assert fast.precision == "int8"
    assert [fast.score(*pair) for pair in PAIRS] == pytest.approx(expected, abs=0.02)
    assert read_manifest(reranker).details["parity"]["fp32"]["largest_change"] < 1e-4


@pytest.mark.parametrize("side", ["right", "left"])
def test_of_a_long_text_the_tokens_are_kept_that_torch_keeps(side, tiny, tmp_path):
    model = shutil.copytree(tiny, tmp_path / "model")
    settings = json.loads((model / "tokenizer_config.json").read_text())
    settings["truncation_side"] = side
    (model / "tokenizer_config.json").write_text(json.dumps(settings))
    export_reranker(model, tmp_path / "out", precisions=["fp32"])
    reranker = OnnxReranker.load(tmp_path / "out")
    tokenizer = Reference(str(model), device="cpu").tokenizer
    one_token, words = "y" * 20 * MAX_TOKENS, "bees and flowers or " * MAX_TOKENS
    long = [f"{one_token} {words}", f"{words} {one_token}", f"{one_token} a {one_token}"]
    for pair in [("how do bees dance", each) for each in long] + [(each, "a b") for each in long]:
        expected = tokenizer(*pair, truncation="longest_first", max_length=MAX_TOKENS)
        assert reranker.inputs(*pair)["input_ids"][0].tolist() == expected["input_ids"]


def test_a_pair_has_the_same_score_alone_and_after_others(reranker):
    loaded = OnnxReranker.load(reranker)
    alone = loaded.score(*PAIRS[0])
    for pair in PAIRS:
        loaded.score(*pair)
    assert loaded.score(*PAIRS[0]) == alone


def test_layers_are_cut_and_a_trained_head_is_kept(model, tmp_path):
    again = CrossEncoder.load(TowerSettings(model=model, layers=(1,)))
    assert again.model.config.num_hidden_layers == 1
    whole = CrossEncoder.load(TowerSettings(model=model)).eval()
    whole.save(tmp_path / "again")
    same = CrossEncoder.load(TowerSettings(model=tmp_path / "again")).eval()
    pairs = [Pair(*pair) for pair in PAIRS]
    with torch.no_grad():
        assert torch.equal(whole(whole.tokenise(pairs)), same(same.tokenise(pairs)))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": LOOKUP_QUERY_ENCODER}, "is a look-up encoder, which reads no pairs"),
        ({"pooling": "mean"}, "a cross-encoder has none: leave it out"),
        ({"layers": (7,)}, "layer 7 does not exist"),
    ],
)
def test_settings_that_no_cross_encoder_has_are_refused(settings, sentence, model):
    with pytest.raises(InvalidArgumentError, match=sentence):
        CrossEncoder.load(TowerSettings(**({"model": model} | settings)))  # type: ignore[arg-type]


def test_a_classifier_of_several_labels_is_no_reranker(tiny, tmp_path):
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    config = AutoConfig.from_pretrained(str(tiny))
    config.num_labels = 3
    AutoModelForSequenceClassification.from_config(config).save_pretrained(str(tmp_path))
    AutoTokenizer.from_pretrained(str(tiny)).save_pretrained(str(tmp_path))
    with pytest.raises(ModelError, match="gives 3 scores for a pair, but a re-ranker gives one"):
        export_reranker(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_encoder_or_a_setting_out_of_range_is_refused(tiny, checkpoints, tmp_path):
    with pytest.raises(ModelError, match="is no cross-encoder: export it as an encoder"):
        export_reranker(checkpoints["bert"], tmp_path / "out")
    with pytest.raises(InvalidArgumentError, match="weight is 2, but a number from 0 to 1 is"):
        export_reranker(tiny, tmp_path / "out", weight=2)
    with pytest.raises(InvalidArgumentError, match="max_tokens 3 is out of range"):
        export_reranker(tiny, tmp_path / "out", max_tokens=3)
    assert not (tmp_path / "out").exists()


def test_a_graph_that_differs_from_torch_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("export.reranker_directory.LARGEST_FP32_CHANGE", -1.0)
    with pytest.raises(ExportError, match=r"as torch: a score differs by 0\.000.*at most -1\.0 is"):
        export_reranker(tiny, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_an_altered_reranker_is_refused(reranker, tmp_path):
    copy = tmp_path / "reranker"
    copy.mkdir()
    for file in reranker.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    canonical = json.loads((copy / "canonical.json").read_text("utf-8"))
    canonical["scores"]["int8"][0] += 0.2
    (copy / "canonical.json").write_text(json.dumps(canonical), "utf-8")
    with pytest.raises(CorruptArtefactError, match=r"canonical\.json has"):
        OnnxReranker.load(copy)
    manifest = read_manifest(copy)
    files = describe_files(copy, [*manifest.files])
    write_manifest(copy, replace(manifest, files=files))
    with pytest.raises(CorruptArtefactError, match=r"one differs by 0\.2"):
        OnnxReranker.load(copy)
    with pytest.raises(ManifestError, match="is of kind 'encoder', but 'reranker' is needed"):
        OnnxReranker.load(DEFAULT_ENCODER)


def test_the_command_exports_what_the_model_is(tiny, tmp_path):
    out, same = tmp_path / "out", tmp_path / "same"
    result = swiftlet("export", tiny, "--out", out, "--precision", "int8")
    assert result.exit_code == 0, result.output
    assert "a re-ranker of weight 1, by default int8" in result.stdout
    assert "correlation with the scores of torch: int8 0.9" in result.stdout
    assert np.isfinite(OnnxReranker.load(out).logit(*PAIRS[0]))
    said = refusal(swiftlet("export", out, "--out", tmp_path / "x"))
    assert "is an exported re-ranker, which can neither be trained nor exported again" in said
    options = "--precision", "int8", "--weight", "0"
    without = swiftlet("export", "reranker", tiny, "--out", same, *options)
    assert "with a weight of 0, it never changes an order: give it another by" in without.stderr
    assert read_manifest(same).files == read_manifest(out).files
