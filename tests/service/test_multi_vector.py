"""Documents of several vectors, with real weights: trained, exported, indexed, changed, served."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import swiftlet
from export.encoder_directory import export_encoder
from swiftlet.cli.main import app as cli
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import ArtefactError, InvalidArgumentError
from swiftlet.evaluation.evaluate import evaluate
from swiftlet.index.documents.passages import encoder_text
from tests.runs import recipe, run, write_collection
from tests.service.conftest import running
from training.errors import RecipeError

pytestmark = pytest.mark.check
VECTORS = 3
TOWERS = {
    "query_encoder__pooling": "cls", "document_encoder__pooling": "first_tokens",
    "document_encoder__first_tokens": VECTORS,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A collection, the encoders `query_encoder` and `document_encoder` for it, and its index."""
    folder = tmp_path_factory.mktemp("vectors")
    collection = write_collection(folder / "collection")
    settings = TOWERS | {
        "recipe": "contrastive",
        "negatives__samplers": ["in_batch", "mined", "cache"],
        "negatives__teacher_share": 0.99,
        "optimiser__micro_batch_size": 4,
        "fine_tuning__epochs": 1,
        "dual_encoder__dim": 64,
        "dual_encoder__layer_norm": True,
    }
    weights = DEFAULT_QUERY_ENCODER, DEFAULT_QUERY_ENCODER
    run(recipe(collection, *weights, **settings), folder / "run")
    for tower in ("query_encoder", "document_encoder"):
        export_encoder(folder / "run" / tower, folder / tower, precisions=["int8"])
    swiftlet.build(
        collection, folder / "index", encoder=folder / "document_encoder", passage_tokens=16,
        overlap_tokens=0,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def collection(folder) -> Path:
    return folder / "collection"


def test_a_hit_has_the_score_of_the_best_vector_of_its_best_passage(folder):
    queries = OnnxEncoder.load(folder / "query_encoder")
    documents = OnnxEncoder.load(folder / "document_encoder")
    assert (documents.dim, documents.width, queries.width) == (64, VECTORS * 64, 64)
    with swiftlet.open(folder / "index", encoder=folder / "query_encoder") as searcher:
        (query,) = queries.encode(["kalo mine"])
        hits = searcher.search("kalo mine", 44, mode="dense").hits
        assert len(hits) == 44
        for hit in hits:
            (row,) = documents.encode([encoder_text(hit.title, hit.passage.text)])
            assert hit.score == pytest.approx((row.reshape(-1, 64) @ query).max(), abs=2e-3)


def test_changes_are_searched_and_merged(folder, collection, tmp_path):
    built = {"encoder": folder / "document_encoder", "passage_tokens": 16, "overlap_tokens": 0}
    swiftlet.build(collection, tmp_path / "index", **built)
    search = {"top_k": 5, "mode": "dense"}
    with (
        swiftlet.write(tmp_path / "index", encoder=folder / "document_encoder") as writer,
        swiftlet.open(tmp_path / "index", encoder=folder / "query_encoder") as searcher,
    ):
        writer.put([{"_id": "new", "text": "volcanoes erupt " * 40}])
        writer.delete(["d1", "d2"])
        searcher.refresh()
        before = searcher.search("volcanoes erupt", **search).hits
        assert "new" in {hit.document_id for hit in before}
        assert writer.compact()
        searcher.refresh()
        after = searcher.search("volcanoes erupt", **search).hits
    assert [hit.document_id for hit in after] == [hit.document_id for hit in before]
    np.testing.assert_allclose([h.score for h in after], [h.score for h in before], atol=1e-3)


def test_a_service_finds_what_the_library_finds(folder, collection):
    index, encoder = folder / "index", folder / "query_encoder"
    judged = collection / "queries.jsonl", collection / "qrels" / "train.tsv"
    with running(index, encoder=encoder) as server:
        served = evaluate(server.url, *judged, metrics=["nDCG@10"])
    assert served.means == evaluate(index, *judged, encoder=encoder, metrics=["nDCG@10"]).means


def test_inspect_says_how_many_vectors_there_are(folder):
    for artefact in ("index", "document_encoder"):
        shown = CliRunner().invoke(cli, ["inspect", str(folder / artefact)])
        assert shown.exit_code == 0
        assert f'"vectors": {VECTORS}' in shown.output


def test_the_document_encoder_is_refused_for_queries(folder):
    with (
        pytest.raises(ArtefactError, match=r"a text 3 vectors, which is for documents.*name the"),
        swiftlet.open(folder / "index", encoder=folder / "document_encoder"),
    ):
        pass


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"document_encoder__first_tokens": 17},
            "first_tokens is 17, but passages have at most 16",
        ),
        (
            {"document_encoder__first_tokens": 33, "document_encoder__max_tokens": 32},
            "document_encoder.first_tokens 33 is out of range: a text has at most max_tokens, 32",
        ),
        (
            {"query_encoder__pooling": "first_tokens"},
            "gives 8 vectors, but a query has one: set query_encoder.pooling to 'cls'",
        ),
        (
            {"dual_encoder__projection": "none", "dual_encoder__layer_norm": True},
            "layer_norm belongs to a projection",
        ),
        (
            {"dual_encoder__dim": 512, "dual_encoder__projection": "none"},
            "without a projection it is the width of the encoders, 384",
        ),
        ({"dual_encoder__dim": 512}, "dim is 512, but the document encoder is 384 wide"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_in_one_sentence(
    changes, problem, collection, tmp_path
):
    weights = DEFAULT_QUERY_ENCODER, DEFAULT_QUERY_ENCODER
    settings = TOWERS | {"passages__truncate": False} | changes
    with pytest.raises((InvalidArgumentError, RecipeError), match=problem):
        run(recipe(collection, *weights, **settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()
