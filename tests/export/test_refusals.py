"""The export refuses unsuitable models in one sentence, and leaves no files."""

import json
import shutil
from pathlib import Path

import pytest
import transformers
from safetensors.torch import load_file, save_file

from export.encoder_directory import export_encoder
from swiftlet.errors import CollectionError, InvalidArgumentError, RetrievalError
from training.model.errors import ModelError
from training.model.quiet import quiet

MARKER = "code of the model ran"


@pytest.fixture
def bert(checkpoints, tmp_path) -> Path:
    """A plain checkpoint of one's own, to break."""
    return Path(shutil.copytree(checkpoints["bert"], tmp_path / "model"))


@pytest.fixture
def dense(projecting, tmp_path) -> Path:
    """A Sentence Transformers directory of one's own, to break."""
    return Path(shutil.copytree(projecting, tmp_path / "model"))


def refused(kind: type[RetrievalError], model: str | Path, out: Path, **options) -> str:
    before = sorted(out.parent.iterdir())
    with pytest.raises(kind) as caught:
        export_encoder(model, out, **options)
    assert sorted(out.parent.iterdir()) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_model_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    out = tmp_path / "out"
    message = refused(InvalidArgumentError, tmp_path / "nothing", out)
    assert message == f"{tmp_path / 'nothing'} does not exist"
    message = refused(InvalidArgumentError, "somebody/some-model", out)
    assert message.startswith("somebody/some-model is no directory, and no model of this name")


def test_what_is_no_model(tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in refused(InvalidArgumentError, tmp_path / "file", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    message = refused(InvalidArgumentError, tmp_path / "empty", tmp_path / "out")
    assert "neither modules.json nor config.json" in message


def test_pooling_that_is_not_named_or_contradicts_the_model(bert, projecting, tmp_path):
    message = refused(InvalidArgumentError, bert, tmp_path / "out")
    assert (
        "pass --pooling with one of cls, mean, max, weightedmean, lasttoken, first_tokens"
        in message
    )
    message = refused(InvalidArgumentError, projecting, tmp_path / "out", pooling="cls")
    assert "pooling 'cls' contradicts" in message
    assert message.endswith("which has 'mean'")


@pytest.mark.parametrize("max_tokens", [0, 2, 41])
def test_a_length_that_the_model_cannot_read(max_tokens, bert, tmp_path):
    message = refused(
        InvalidArgumentError, bert, tmp_path / "out", pooling="mean", max_tokens=max_tokens
    )
    assert message == f"max_tokens {max_tokens} is out of range: this model takes 3 to 40"


@pytest.mark.parametrize("precisions", [[], ["int4"]])
def test_a_precision_that_is_not_known(precisions, bert, tmp_path):
    message = refused(
        InvalidArgumentError, bert, tmp_path / "out", pooling="mean", precisions=precisions
    )
    assert "choose among fp32, int8, int8_static" in message


def test_an_existing_output_is_kept_by_default(bert, tmp_path):
    out = tmp_path / "out"
    options = {"pooling": "mean", "precisions": ["fp32"]}
    first = export_encoder(bert, out, max_tokens=8, **options)
    assert "--overwrite" in refused(InvalidArgumentError, bert, out, **options)
    refused(InvalidArgumentError, bert, out, precisions=["fp32"], overwrite=True)
    assert (out / "model.onnx").stat().st_size == first.files["model.onnx"].size_bytes
    assert export_encoder(bert, out, max_tokens=9, overwrite=True, **options) != first
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("broken", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_broken_checkpoint(broken, bert, tmp_path):
    (bert / broken).write_bytes(b"{ not what it should be")
    assert f"{bert} cannot be loaded" in refused(ModelError, bert, tmp_path / "out", pooling="mean")


def test_a_checkpoint_without_all_its_weights(bert, tmp_path):
    weights = load_file(bert / "model.safetensors")
    missing = "encoder.layer.1.output.dense.weight"
    weights.pop(missing)
    save_file(weights, bert / "model.safetensors", metadata={"format": "pt"})
    message = refused(ModelError, bert, tmp_path / "out", pooling="mean")
    assert message.endswith(f"lacks 1 of the weights of a BertModel, such as {missing}")


def test_a_tokenizer_that_has_no_fast_form(bert, tmp_path):
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        (bert / file).unlink()
    with quiet():
        transformers.CanineTokenizer(model_max_length=24).save_pretrained(bert)
    message = refused(ModelError, bert, tmp_path / "out", pooling="mean")
    assert "only a slow tokenizer (CanineTokenizer)" in message


def test_code_that_comes_with_a_model_is_not_run(dense, tmp_path):
    (dense / "custom.py").write_text(f"raise SystemExit({MARKER!r})")
    modules = json.loads((dense / "modules.json").read_text())
    modules[2]["type"] = "custom.Module"
    (dense / "modules.json").write_text(json.dumps(modules))
    assert "has a module custom.Module" in refused(ModelError, dense, tmp_path / "out")


def test_an_architecture_of_the_models_own_is_not_run(bert, tmp_path):
    (bert / "modeling.py").write_text(f"raise SystemExit({MARKER!r})")
    config = json.loads((bert / "config.json").read_text())
    config |= {
        "model_type": "homemade",
        "auto_map": {"AutoConfig": "modeling.Config", "AutoModel": "modeling.Model"},
    }
    (bert / "config.json").write_text(json.dumps(config))
    assert "cannot be loaded" in refused(ModelError, bert, tmp_path / "out", pooling="mean")


def test_an_activation_that_would_be_replaced_in_silence(dense, tmp_path):
    path = dense / "2_Dense" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"activation_function": "homemade.Activation"}))
    message = refused(ModelError, dense, tmp_path / "out")
    assert "has the activation homemade.Activation" in message


def test_a_bad_collection_is_refused_before_the_export(bert, tmp_path):
    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    (tmp_path / "beir" / "corpus.jsonl").write_text('{"_id": "a", "text": "kalo"}\n')
    (tmp_path / "beir" / "queries.jsonl").write_text('{"_id": "q", "text": "kalo"}\n')
    (tmp_path / "beir" / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq\tmissing\t1\n"
    )
    options = {"pooling": "mean", "collection": tmp_path / "beir"}
    assert "missing" in refused(CollectionError, bert, tmp_path / "out", **options)
    assert "dev" in refused(CollectionError, bert, tmp_path / "out", **options, split="dev")
