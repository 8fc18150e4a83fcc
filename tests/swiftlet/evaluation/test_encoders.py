"""Two query encoders of one index, compared."""

import json

import faiss
import numpy as np
import pytest

from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import CollectionError, InvalidArgumentError
from swiftlet.evaluation.encoders import compare_encoders
from tests.command_line import refusal, swiftlet
from tests.embeddings_server import answering, shipped

QUERIES = {"a": "how birds find their way", "b": "eruptions of volcanoes", "c": "bread and salt"}


def test_an_encoder_equals_itself(small_index):
    found = compare_encoders(small_index, DEFAULT_ENCODER, DEFAULT_ENCODER, QUERIES)
    assert found.overlap == 1
    assert found.correlation == pytest.approx(1)
    assert found.num_queries == 3
    assert found.ndcg == {}


def test_a_table_finds_other_documents_and_is_tested_with_judgements(small_index, small_documents):
    relevant = small_documents[0].document_id
    found = compare_encoders(
        small_index,
        DEFAULT_ENCODER,
        LOOKUP_QUERY_ENCODER,
        QUERIES,
        {name: {relevant: 1} for name in QUERIES},
        top_k=3,
    )
    assert 0 < found.overlap <= 1
    assert found.correlation is None or found.correlation < 0.9999
    assert all(each is not None and each > 0 for each in found.milliseconds)
    assert {"dense", "hybrid"} == found.ndcg.keys()
    assert all(test.num_queries == 3 for test in found.ndcg.values())


def test_embeddings_of_a_file_stand_for_a_model_that_is_not_there(small_index, tmp_path):
    file = tmp_path / "queries.npy"
    rows = OnnxEncoder.load(DEFAULT_ENCODER, role="query").encode([*QUERIES.values()])
    np.save(file, rows)
    found = compare_encoders(small_index, file, DEFAULT_ENCODER, QUERIES)
    assert found.overlap == 1
    assert found.milliseconds[0] is None
    log = tmp_path / "queries.jsonl"
    log.write_text("\n".join(json.dumps({"_id": k, "text": v}) for k, v in QUERIES.items()))
    timed = swiftlet("compare", small_index, file, file, "--queries", log)
    assert timed.exit_code == 0, timed.output
    assert "milliseconds" not in timed.stdout
    refused = refusal(swiftlet("search", small_index, "bread", "--encoder", file))
    assert "swiftlet compare takes such a file" in refused


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda rows: rows[1:], r"q.npy: .* the shape \(2, 384\) .* each of the 3 queries"),
        (lambda rows: rows[:, 1:], "q.npy: row 1: the vector has 383 numbers where 384"),
        (lambda rows: rows * [[1], [0], [1]], "q.npy: row 2: the embedding is zero"),
        (lambda rows: rows * [[1], [1], [np.nan]], "q.npy: row 3: .* that is not finite"),
        (None, "q.npy: cannot be read: it is no file of NumPy"),
        ("missing", "q.npy: cannot be read: No such file"),
    ],
)
def test_bad_embeddings_of_a_file_are_refused_by_its_name_and_the_row(
    damage, expected, small_index, tmp_path
):
    file = tmp_path / "q.npy"
    if callable(damage):
        np.save(file, damage(np.ones((3, 384), np.float32)))
    elif damage is None:
        file.write_text("<html>not found</html>")
    with pytest.raises(CollectionError, match=expected):
        compare_encoders(small_index, DEFAULT_ENCODER, file, QUERIES)


def test_the_command_prints_the_figures_and_refuses_a_depth_of_none(
    small_index, small_documents, tmp_path
):
    log = tmp_path / "queries.jsonl"
    log.write_text("\n".join(json.dumps({"_id": k, "text": v}) for k, v in QUERIES.items()))
    names = [each.name for each in (DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER)]
    found = swiftlet("compare", small_index, *names, "--queries", log)
    assert found.exit_code == 0, found.output
    assert "overlap@10 of their documents: " in found.stdout
    assert found.stdout.startswith(f"first: {names[0]}; second: {names[1]}\n")
    qrels = tmp_path / "qrels.tsv"
    rows = "".join(f"{key}\t{small_documents[0].document_id}\t1\n" for key in QUERIES)
    qrels.write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    judged = swiftlet("compare", small_index, *names, "--queries", log, "--qrels", qrels)
    assert "for a p, at least 10 queries are needed" in judged.stderr
    assert "milliseconds to encode a query" in " ".join(found.stdout.split())
    damaged = tmp_path / "vectors.faiss"
    damaged.write_bytes(b"IxFI")
    refused = refusal(swiftlet("compare", damaged, *names, "--queries", log))
    assert "vectors.faiss: FAISS cannot serve it" in refused
    assert "'--queries'" in refusal(swiftlet("compare", small_index, *names))
    with pytest.raises(InvalidArgumentError, match="top_k is 0"):
        compare_encoders(small_index, *names, QUERIES, top_k=0)


def test_a_faiss_file_is_searched_by_both_and_judged_by_its_rows(small_documents, tmp_path):
    vectors = shipped().reading("passage").encode([each.text for each in small_documents])
    faiss.write_index(flat := faiss.IndexFlatIP(384), f"{tmp_path / 'empty.faiss'}")
    flat.add(vectors)
    faiss.write_index(flat, f"{tmp_path / 'plain.faiss'}")
    queries = {f"{row}": each.text for row, each in enumerate(small_documents[:20])}
    found = compare_encoders(
        tmp_path / "plain.faiss",
        DEFAULT_ENCODER,
        LOOKUP_QUERY_ENCODER,
        queries,
        {row: {row: 1} for row in queries},
    )
    assert [*found.ndcg] == ["dense"]
    assert found.ndcg["dense"].baseline_mean > 0.99
    assert 0 < found.overlap < 1
    way_out = r"'named'.* numbers of their rows.* --texts or --ids"
    both = DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
    with pytest.raises(CollectionError, match=way_out):
        compare_encoders(tmp_path / "plain.faiss", *both, queries, {"0": {"named": 1}})
    with pytest.raises(CollectionError, match="there is no vector"):
        compare_encoders(tmp_path / "empty.faiss", DEFAULT_ENCODER, DEFAULT_ENCODER, queries)
    with pytest.raises(InvalidArgumentError, match="embedding has 2 numbers, but"):
        compare_encoders(
            tmp_path / "plain.faiss",
            DEFAULT_ENCODER,
            lambda texts: [[len(t), 1] for t in texts],
            queries,
        )


def test_the_command_compares_functions_and_addresses(small_index, tmp_path):
    log = tmp_path / "queries.jsonl"
    log.write_text("\n".join(json.dumps({"_id": k, "text": v}) for k, v in QUERIES.items()))
    function = "tests.swiftlet.evaluation.test_encoders:embed"
    with answering() as server:
        found = swiftlet("compare", small_index, function, server.address, "--queries", log)
    assert found.exit_code == 0, found.output
    assert "overlap@10 of their documents: 1.000" in found.stdout


def embed(texts: list[str]) -> object:
    return shipped().encode(texts)
