"""A document encoder of another architecture and tokenizer than the query encoder's.

The document encoder is small and has random weights; the query encoder is the one that ships.
"""

import pytest

import swiftlet
from export.encoder_directory import export_encoder
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.evaluation.evaluate import evaluate
from tests.checkpoints import checkpoints
from tests.runs import recipe, run, write_collection
from tests.service.conftest import running

__all__ = ["checkpoints"]

SETTINGS = {
    "alignment__max_epochs": 8,
    "fine_tuning__epochs": 8,
    "negatives__samplers": ["in_batch"],
    "optimiser__learning_rate": 2e-3,
    "optimiser__batch_size": 22,
    "validation__queries": 8,
    "validation__every": 100,
    "dual_encoder__dim": 32,
}


@pytest.mark.check
def test_a_pair_with_two_tokenizers_is_trained_exported_and_served(checkpoints, tmp_path):
    collection = write_collection(tmp_path / "collection")
    run(
        recipe(collection, DEFAULT_QUERY_ENCODER, checkpoints["roberta"], **SETTINGS),
        tmp_path / "run",
    )
    encoders = {tower: tmp_path / tower for tower in ("query_encoder", "document_encoder")}
    for tower, place in encoders.items():
        export_encoder(tmp_path / "run" / tower, place, precisions=["fp32"])
    queries, documents = (OnnxEncoder.load(place) for place in encoders.values())
    assert queries.tokenise("kalo mine") != documents.tokenise("kalo mine")
    swiftlet.build(
        collection, tmp_path / "index", encoder=encoders["document_encoder"], passage_tokens=16,
        overlap_tokens=0,
    )  # fmt: skip
    judged = collection / "queries.jsonl", collection / "qrels" / "train.tsv"
    with running(tmp_path / "index", encoder=encoders["query_encoder"]) as server:
        learnt = evaluate(server.url, *judged, metrics=["nDCG@10"], mode="dense")
    assert learnt.means["nDCG@10"] > 0.5  # 0.2 after an epoch
