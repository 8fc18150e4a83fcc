"""The export refuses unsuitable models in one sentence, and leaves no files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import transformers
from safetensors.torch import load_file, save_file

from export.encoder_directory import export_encoder
from swiftlet.errors import CollectionError, InvalidArgumentError, RetrievalError
from training.model.cross_encoder import CrossEncoder
from training.model.errors import ModelError
from training.model.quiet import quiet
from training.model.towers import TowerSettings

MARKER = "code of the model ran"


@pytest.fixture
def bert(checkpoints, tmp_path) -> Path:
    """A plain checkpoint of one's own, to break."""
    return Path(shutil.copytree(checkpoints["bert"], tmp_path / "model"))


def refused(kind: type[RetrievalError], model: str | Path, out: Path, **options) -> str:
    before = sorted(out.parent.iterdir())
    with pytest.raises(kind) as caught:
        export_encoder(model, out, **options)
    assert sorted(out.parent.iterdir()) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_no_model(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for model, sentence in {
        tmp_path / "nothing": f"{tmp_path / 'nothing'} does not exist",
        "somebody/some-model": "somebody/some-model is no directory, and no model of this name",
        tmp_path / "file": f"{tmp_path / 'file'} is a file",
        tmp_path / "empty": f"{tmp_path / 'empty'} has neither modules.json nor config.json",
    }.items():
        assert refused(InvalidArgumentError, model, tmp_path / "out").startswith(sentence)


POOLINGS = "cls, mean, max, weightedmean, lasttoken, first_tokens"


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ("bert", {}, f"does not define a pooling: pass --pooling with one of {POOLINGS}"),
        ("projecting", {"pooling": "cls"}, "pooling 'cls' contradicts"),
        ("bert", {"max_tokens": 0}, "max_tokens is 0, but at least 1 is expected"),
        ("bert", {"max_tokens": 2}, "max_tokens 2 is out of range: this model takes 3 to 40"),
        ("bert", {"max_tokens": 41}, "max_tokens 41 is out of range: this model takes 3 to 40"),
        ("bert", {"precisions": []}, "precisions are [], but some of fp32, int8 are expected"),
        ("bert", {"precisions": ["int8", "int4"]}, "but some of fp32, int8 are expected"),
        # Swiftlet 0.2 could write it.
        ("bert", {"precisions": ["int8_static"]}, "but some of fp32, int8 are expected"),
    ],
)
def test_a_setting_that_the_model_cannot_have(
    model, options, sentence, checkpoints, projecting, tmp_path
):
    folder = projecting if model == "projecting" else checkpoints[model]
    options = ({"pooling": "mean"} if options and model == "bert" else {}) | options
    assert sentence in refused(InvalidArgumentError, folder, tmp_path / "out", **options)


def test_an_existing_output_is_kept_by_default(checkpoints, tmp_path):
    model, out = checkpoints["bert"], tmp_path / "out"
    options = {"pooling": "mean", "precisions": ["fp32"]}
    first = export_encoder(model, out, max_tokens=8, **options)
    assert "--overwrite" in refused(InvalidArgumentError, model, out, **options)
    refused(InvalidArgumentError, model, out, precisions=["fp32"], overwrite=True)
    assert (out / "model.onnx").stat().st_size == first.files["model.onnx"].size_bytes
    assert export_encoder(model, out, max_tokens=9, overwrite=True, **options) != first
    assert not list(tmp_path.glob(".*"))


def without_a_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights.pop("encoder.layer.1.output.dense.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def without_a_fast_tokenizer(folder: Path) -> None:
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        (folder / file).unlink()
    with quiet():
        transformers.CanineTokenizer(model_max_length=24).save_pretrained(folder)


def with_an_architecture_of_its_own(folder: Path) -> None:
    (folder / "modeling.py").write_text(f"raise SystemExit({MARKER!r})")
    change = {
        "model_type": "homemade",
        "auto_map": {"AutoConfig": "modeling.Config", "AutoModel": "modeling.Model"},
    }
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))


def broken(file: str) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_bytes(b"{ not what it should be")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (broken("config.json"), "cannot be loaded"),
        (broken("model.safetensors"), "cannot be loaded"),
        (broken("tokenizer.json"), "cannot be loaded"),
        (
            without_a_weight,
            "lacks 1 of the weights of a BertModel, such as encoder.layer.1.output.dense.weight",
        ),
        (without_a_fast_tokenizer, "has only a slow tokenizer (CanineTokenizer)"),
        (with_an_architecture_of_its_own, "cannot be loaded"),
    ],
)
def test_a_broken_or_unsuitable_checkpoint(change, sentence, bert, tmp_path):
    change(bert)
    message = refused(ModelError, bert, tmp_path / "out", pooling="mean")
    assert message.startswith(f"{bert} {sentence}")


def test_a_tokenizer_without_a_padding_token_is_no_hindrance(bert, tmp_path):
    path = bert / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token": None}))
    export_encoder(bert, tmp_path / "out", pooling="mean", precisions=["fp32"])
    with pytest.raises(ModelError, match="has no padding token"):
        CrossEncoder.load(TowerSettings(model=bert))


def test_modules_with_code_or_an_activation_that_would_be_replaced_in_silence(projecting, tmp_path):
    folder = Path(shutil.copytree(projecting, tmp_path / "model"))
    path = folder / "2_Dense" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"activation_function": "homemade.Activation"}))
    message = refused(ModelError, folder, tmp_path / "out")
    assert "has the activation homemade.Activation" in message
    (folder / "custom.py").write_text(f"raise SystemExit({MARKER!r})")
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "custom.Module"
    (folder / "modules.json").write_text(json.dumps(modules))
    assert "has a module custom.Module" in refused(ModelError, folder, tmp_path / "out")


def test_a_bad_collection_is_refused_before_the_export(checkpoints, tmp_path):
    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    (tmp_path / "beir" / "corpus.jsonl").write_text('{"_id": "a", "text": "kalo"}\n')
    (tmp_path / "beir" / "queries.jsonl").write_text('{"_id": "q", "text": "kalo"}\n')
    (tmp_path / "beir" / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq\tmissing\t1\n"
    )
    bert, options = checkpoints["bert"], {"pooling": "mean", "collection": tmp_path / "beir"}
    assert "missing" in refused(CollectionError, bert, tmp_path / "out", **options)
    assert "dev" in refused(CollectionError, bert, tmp_path / "out", **options, split="dev")
