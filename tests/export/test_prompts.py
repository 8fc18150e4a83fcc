"""Models that read a prompt before queries, and another one before passages."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from export.encoder_directory import export_encoder
from swiftlet.encoders.encoder import OnnxEncoder, Role
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.index.updates.directory_writer import write
from swiftlet.index.vectors import open_index
from swiftlet.manifest import read_manifest
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document
from tests.command_line import swiftlet
from training.distillation.teacher import load_query_encoder
from training.model.errors import ModelError
from training.model.exported import exported_model
from training.model.quiet import quiet
from training.model.towers import Tower, TowerSettings

TEXTS = ["kalo", "mine pura soti", "lolo tira kalo pura"]
PROMPTS = {"query": "soti mine: ", "document": "tira: "}
QUERY, PASSAGE = PROMPTS["query"], PROMPTS["document"]
FORMS: list[tuple[dict[str, Any], str, str]] = [
    ({"prompts": PROMPTS}, QUERY, PASSAGE),
    ({"prompts": {"query": QUERY, "passage": PASSAGE}}, QUERY, PASSAGE),
    ({"prompts": {"any": QUERY}, "default_prompt_name": "any"}, QUERY, QUERY),
    ({"prompts": {"query": QUERY}}, QUERY, ""),
]


def write_model(checkpoint: Path, folder: Path, **options: Any) -> Path:
    Tower.load(TowerSettings(model=checkpoint, pooling="mean")).save(folder / "plain")
    with quiet():
        model = SentenceTransformer(str(folder / "plain"), device="cpu", **options)
        model.save(str(folder / "model"), create_model_card=False)
    return folder / "model"


def by_torch(model: Path, role: Role) -> np.ndarray:
    with quiet():
        loaded = SentenceTransformer(str(model), device="cpu")
        encode = loaded.encode_query if role == "query" else loaded.encode_document
        return np.array(encode(TEXTS, show_progress_bar=False))


@pytest.fixture(scope="module")
def model(checkpoints, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("prompts")
    return write_model(checkpoints["bert"], folder, prompts=PROMPTS)


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "encoder"
    export_encoder(model, out, precisions=["fp32"])
    return out


@pytest.mark.parametrize(
    ("form", "query", "passage", "architecture"),
    [*((*form, "bert") for form in FORMS), (*FORMS[0], "mpnet")],
)
def test_each_role_has_the_embeddings_of_torch(
    form, query, passage, architecture, checkpoints, tmp_path
):
    model = write_model(checkpoints[architecture], tmp_path, **form)
    export_encoder(model, tmp_path / "encoder", precisions=["fp32"])
    encoder = OnnxEncoder.load(tmp_path / "encoder")
    with quiet():
        loaded = SentenceTransformer(str(model), device="cpu")
        expected = [
            np.array(loaded.encode(TEXTS, prompt=prompt, show_progress_bar=False))
            for prompt in (query, passage)
        ]
    found = [encoder.reading("query").encode(TEXTS), encoder.reading("passage").encode(TEXTS)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert (encoder.encode(TEXTS) * found[0]).sum(1).max() < 0.9999


def test_an_index_has_passages_with_their_prompt_and_is_searched_with_that_of_queries(
    model, exported, tmp_path
):
    documents = [Document(f"{number}", text) for number, text in enumerate(TEXTS)]
    settings = BuildSettings(passage_tokens=20, overlap_tokens=0, language=None)
    build_index(documents, exported, tmp_path / "index", settings)
    manifest = read_manifest(tmp_path / "index")
    stored = open_index(tmp_path / "index", manifest).embeddings(np.arange(3))
    np.testing.assert_allclose(stored, by_torch(model, "passage"), atol=1e-5)
    asked = by_torch(model, "query")
    with Searcher.open(tmp_path / "index", exported) as searcher:
        for number, text in enumerate(TEXTS):
            scores = {hit.document_id: hit.score for hit in searcher.search(text, 3)}
            expected = stored @ asked[number]
            assert scores == pytest.approx({f"{n}": expected[n] for n in range(3)}, abs=1e-5)
        with write(tmp_path / "index", encoder=exported) as writer:
            writer.put([{"_id": "new", "text": TEXTS[0]}])
        assert searcher.refresh()
        scores = {hit.document_id: hit.score for hit in searcher.search(TEXTS[1], 4)}
        assert scores["new"] == pytest.approx(scores["0"], abs=1e-5)


def test_passages_leave_room_for_the_prompt(exported, tmp_path):
    encoder = OnnxEncoder.load(exported, role="passage")
    splitter = BuildSettings(passage_tokens=16, overlap_tokens=0).splitter(encoder)
    passages = [*splitter.split(Document("d", "kalo mine pura soti " * 20))]
    assert len(passages) > 1
    assert all(len(encoder.tokenise(each.text)) <= 16 for each in passages)


def test_prompts_are_given_or_left_out_by_options(model, tmp_path):
    out = tmp_path / "encoder"
    options = "--precision", "fp32", "--query-prompt", "pura: ", "--passage-prompt", ""
    shown = swiftlet("export", model, "--out", out, *options)
    assert shown.exit_code == 0, shown.output
    assert "Before each query: 'pura: '" in shown.stdout
    encoder = OnnxEncoder.load(out)
    assert (encoder.reading("query").prompt, encoder.reading("passage").prompt) == ("pura: ", "")
    assert '"query": "pura: "' in swiftlet("inspect", out).stdout


def test_a_teacher_and_towers_read_the_prompt_of_their_role(model, exported):
    for place in (model, exported):
        encoder, _ = load_query_encoder(TowerSettings(model=place))
        np.testing.assert_allclose(encoder.encode(TEXTS), by_torch(model, "query"), atol=1e-5)
        tower = Tower.load(TowerSettings(model=place, role="passage"))
        assert tower.prompt == "tira: "
    assert exported_model(exported, {}).prompts["document"] == "tira: "


def test_prompts_outlive_a_training(model, tmp_path):
    Tower.load(TowerSettings(model=model, role="query")).save(tmp_path / "saved")
    export_encoder(tmp_path / "saved", tmp_path / "encoder", precisions=["fp32"])
    found = OnnxEncoder.load(tmp_path / "encoder", role="query")
    np.testing.assert_allclose(found.encode(TEXTS), by_torch(model, "query"), atol=1e-5)


def test_a_pooling_without_the_prompt_is_refused(checkpoints, tmp_path):
    model = write_model(checkpoints["bert"], tmp_path, prompts=PROMPTS)
    with quiet():
        loaded = SentenceTransformer(str(model), device="cpu")
        loaded.set_pooling_include_prompt(include_prompt=False)
        loaded.save(str(tmp_path / "again"), create_model_card=False)
    with pytest.raises(ModelError, match="leaves its prompts out of the pooling"):
        export_encoder(tmp_path / "again", tmp_path / "encoder")
