import json
import pickle
from collections.abc import Iterator
from threading import BoundedSemaphore
from time import perf_counter

import numpy as np
import pytest

import swiftlet
from swiftlet.deadline import due_at
from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.opening import encoder_place, open_encoder
from swiftlet.encoders.remote import EncoderAddress, Endpoint
from swiftlet.errors import (
    ArtefactError,
    EncoderError,
    EncoderTimeoutError,
    InvalidArgumentError,
)
from swiftlet.index.documents.passages import encoder_text
from swiftlet.types import Document
from tests.command_line import refusal
from tests.command_line import swiftlet as swiftlet_command
from tests.embeddings_server import (
    EmbeddingsServer,
    answer,
    answering,
    drip,
    drip_of_head,
    embeddings,
    half,
    hang,
)

TEXTS = ["how is bread baked", "ICE ❄ café", "", "\ud800 who dances\tfor honey?", "word " * 400]


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with answering() as server:
        yield server


@pytest.fixture
def encoder(server) -> ModelEncoder:
    found = open_encoder(server.address, "query")
    server.asked.clear()
    return found


def test_an_address_gives_the_embeddings_of_the_model_behind_it(server, encoder, shipped_encoder):
    server.change = lambda found: 3 * found
    found = encoder.encode(TEXTS)
    assert found.dtype == np.float32
    assert np.allclose((found * shipped_encoder.encode(TEXTS)).sum(axis=1), 1, atol=1e-3)
    assert np.array_equal(found[1], encoder.embed(encoder.tokenise(TEXTS[1])))
    assert encoder.tokenise(TEXTS[0]) == shipped_encoder.tokenise(TEXTS[0])
    assert encoder.encode([]).shape == (0, 384)
    assert (encoder.dim, encoder.width) == (384, 384)
    (asked, _) = server.asked
    assert asked["path"] == "/v1/embeddings"
    assert asked["model"] == "small"
    assert asked["input"][:3] == ["how is bread baked", "ICE ❄ café", " "]
    assert len(asked["input"][4].split()) == 254  # no more than the encoder that ships reads


def test_prompts_types_and_dimensions_stand_in_the_address(server):
    options = "&query_prompt=query:+&query_type=query&passage_type=document&dimensions=384"
    encoder = open_encoder(f"{server.address}{options}", "query")
    encoder.encode(["bees"])
    encoder.reading("passage").encode(["bees"])
    of_queries, of_passages = server.asked[-2:]
    assert of_queries["input"] == ["query: bees"]
    assert of_passages["input"] == ["bees"]
    assert [each["input_type"] for each in server.asked] == ["document", "query", "document"]
    assert {each["dimensions"] for each in server.asked} == {384}


def test_texts_are_asked_for_in_batches(server, encoder):
    assert len(encoder.encode([f"loaf {n}" for n in range(70)])) == 70
    assert [len(each["input"]) for each in server.asked] == [32, 32, 6]


def test_a_busy_server_is_asked_again_when_it_says(server, encoder):
    busy = answer(429, '{"error": {"message": "slow down"}}', Retry_After=1)
    server.faults = [busy, answer(503, "busy", "text/plain")]
    began = perf_counter()
    assert encoder.encode(["bees"]).shape == (1, 384)
    assert perf_counter() - began > 1
    assert len(server.asked) == 3


def test_a_long_wait_is_said_once(server, encoder, monkeypatch, caplog):
    monkeypatch.setattr("swiftlet.endpoint._NOTED_SECONDS", 0.1)
    server.faults = [answer(429, '{"error": "slow down"}')] * 2
    encoder.encode(["bees"])
    (said,) = caplog.messages
    assert "answers 429: 'slow down'; it is asked again, for at most 300 seconds" in said


def test_an_answer_that_ends_in_the_middle_is_asked_for_again(server, encoder):
    server.faults = [half]
    assert encoder.encode(["bees"]).shape == (1, 384)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (answer(429, '{"error": {"message": "slow down"}}'), r"429: 'slow down'; it was asked aga"),
        (answer(503, "{}", Retry_After=10_000), r"503.*no time left"),
        (
            answer(200, "<html>", "text/html"),
            r"'text/html' that has no 2 emb.*, which mostly ends in /v1, ",
        ),
        (answer(200, '{"data": 3}'), "has no 2 embeddings"),
        (answer(200, "[" * 100_000), "has no 2 embeddings"),
        (answer(200, "{}", Content_Encoding="gzip, gzip"), "the encoding 'gzip, gzip', which was"),
        (answer(401, '{"error": "no key"}'), r"401: 'no key'; set SWIFTLET_ENCODER_KEY to its key"),
        (
            answer(404, '{"detail": "no model x"}'),
            r"answers 404: 'no model x'; .*/v1/embeddings was asked: is",
        ),
        (
            answer(307, "", Location="http://127.0.0.1:1/"),
            "answers 307; .*/v1/embeddings was asked: is it the address",
        ),
        (embeddings([1.0] * 384), "gives 1 embeddings for 2 texts"),
        (answer(200, '{"data": []}'), "has no 2 embeddings"),
        (answer(200, json.dumps({"data": [{"index": 1, "embedding": [1.0]}] * 2})), "index 1 more"),
        (embeddings(*[[1.0] * 384] * 3), "gives 3 embeddings for 2 texts"),
        (
            embeddings([1.0] * 3, [1.0] * 3),
            r"of shape \(2, 3\), but 2 rows of 384 numbers are expected",
        ),
        (
            embeddings([1.0] * 384, [1.0] * 3),
            "that have 384, 3 numbers, but 2 rows of 384 numbers are",
        ),
        (embeddings(["a"] * 384, ["b"] * 384), "but 2 rows of 384 numbers are expected"),
        (embeddings([1.0] * 384, [float("nan")] * 384), "not finite, for the text 'honey'"),
        (embeddings([1.0] * 384, [0.0] * 384), "is zero, for the text 'honey'"),
        (embeddings([1.0] * 384, [1e60] * 384), "not finite, for the text 'honey'"),
    ],
)
def test_a_bad_answer_is_one_sentence(server, encoder, fault, sentence):
    server.faults = [fault] * 50  # type: ignore[list-item]
    with pytest.raises(EncoderError, match=sentence) as refusal, due_at(perf_counter() + 0.5):
        encoder.encode(["bees", "honey"])
    assert "\n" not in f"{refusal.value}"
    assert server.address in f"{refusal.value}"


@pytest.mark.parametrize("fault", [hang, drip, drip_of_head])
def test_a_server_that_does_not_end_its_answer_is_left_at_the_deadline(server, encoder, fault):
    server.faults = [fault]  # type: ignore[list-item]
    with pytest.raises(EncoderTimeoutError, match="in time"), due_at(perf_counter() + 0.5):
        encoder.encode(["bees"])
    assert encoder.encode(["bees"]).shape == (1, 384)


def test_a_server_that_ends_no_answer_holds_up_a_few_threads_and_then_nothing(server):
    asks = Endpoint(EncoderAddress.parse(server.address))
    asks._exchange._waiting = BoundedSemaphore(2)
    server.faults = [drip_of_head] * 2
    for _ in range(2):
        with pytest.raises(EncoderTimeoutError), due_at(perf_counter() + 0.2):
            asks(["bees"], "query")
    with pytest.raises(EncoderError, match="has not ended 64 answers"):
        asks(["bees"], "query")
    assert len(server.asked) <= 2


def test_an_address_where_nothing_answers_is_refused_at_once():
    with pytest.raises(EncoderError, match="is not reached"):
        open_encoder("http://127.0.0.1:9/v1?model=x", "query")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("http:///v1?model=x", "such as http"),
        ("http://host:99999/v1?model=x", "such as http"),
        ("http://host/v1", "names no model"),
        ("http://host/v1?model=", "names no model"),
        ("http://host/v1?model=a&model=b", "an option twice"),
        ("http://host/v1?model=a&api_key=secret", "has the option 'api_key', but one of model, qu"),
        ("http://user:secret@host/v1?model=a", "set SWIFTLET_ENCODER_KEY to its key instead"),
        ("http://host/v1?model=a&max_tokens=9", "max_tokens .* is '9', but a number from 16 to"),
        ("http://host/v1?model=a&dimensions=x", "dimensions .* is 'x', but a number from 1 to"),
    ],
)
def test_a_bad_address_is_one_sentence_without_its_secrets(address, sentence):
    with pytest.raises(InvalidArgumentError, match=sentence) as refusal:
        encoder_place(address)
    assert "secret" not in f"{refusal.value}"


def test_an_address_is_the_same_however_it_is_written():
    place = EncoderAddress.parse("http://host:80/v1/embeddings?query_prompt=q:%20&model=a/b")
    assert place == EncoderAddress.parse(f"{place}")
    assert f"{EncoderAddress.parse('https://host?model=m')}" == "https://host/v1?model=m"
    assert place.prompts == {"query": "q: ", "passage": ""}


def test_a_key_goes_to_the_address_that_is_named_and_is_shown_nowhere(server, monkeypatch):
    monkeypatch.setenv("SWIFTLET_ENCODER_KEY", "a-secret")
    place = encoder_place(server.address)
    encoder = open_encoder(server.address, "query")
    assert server.asked[-1]["headers"]["Authorization"] == "Bearer a-secret"
    server.faults = [answer(403, '{"error": "a-secret is no key"}')]
    with pytest.raises(EncoderError, match="since the one in SWIFTLET_ENCODER_KEY is not it") as no:
        encoder.encode(["bees"])
    assert isinstance(place, EncoderAddress)
    assert pickle.loads(pickle.dumps(place)).key == "a-secret"
    assert "a-secret" not in f"{place} {place!r} {encoder!r} {encoder.manifest.fields()} {no.value}"
    monkeypatch.setenv("SWIFTLET_ENCODER_KEY", "kéy")
    with pytest.raises(InvalidArgumentError, match="SWIFTLET_ENCODER_KEY has a character"):
        encoder_place(server.address)


@pytest.mark.parametrize(
    "fault",
    [
        answer(200, "[]", kind="a-secret"),
        answer(200, "[]", content_encoding="a-secret"),
        answer(400, f'{{"error": "{"x" * 24}Bearer a-secret{"x" * 60}"}}'),
        lambda handler: handler.wfile.write(b"a-secret\r\n\r\n"),
    ],
    ids=["type", "encoding", "refusal", "status"],
)
def test_a_server_that_repeats_the_key_does_not_get_it_shown(fault, server, monkeypatch):
    monkeypatch.setenv("SWIFTLET_ENCODER_KEY", "a-secret")
    server.faults = [fault]
    with pytest.raises(EncoderError, match="…") as refused:
        open_encoder(server.address, "query")
    assert "a-secr" not in f"{refused.value}"


def test_an_index_is_built_searched_changed_and_merged_by_an_address(
    server, small_documents, tmp_path, monkeypatch
):
    monkeypatch.setenv("SWIFTLET_ENCODER_KEY", "a-secret")
    index = tmp_path / "index"
    manifest = swiftlet.build(small_documents[::5], index, encoder=server.address)
    assert manifest.details["encoder_place"] == server.address
    assert "a-secret" not in (index / "manifest.json").read_text()
    server.asked.clear()
    with swiftlet.open(index) as searcher, swiftlet.write(index) as writer:
        found = searcher.search("who dances for honey?", 3)
        assert found.hits[0].document_id.startswith("bees")
        assert found.stage_seconds[searcher.stage_names.index("encode")] > 0
        writer.put([{"id": "new", "text": "A kettle boils water for tea."}])
        assert writer.compact()
        searcher.refresh()
        assert searcher.search("tea kettle", mode="dense").hits[0].document_id == "new"
    # An index may come from others: the key is for addresses that a person names.
    assert not any("Authorization" in each["headers"] for each in server.asked)


def test_another_model_behind_the_same_address_is_noticed(server, small_documents, tmp_path):
    index = tmp_path / "index"
    swiftlet.build(small_documents[:10], index, encoder=server.address)
    server.change = lambda found: found + np.float32(1e-4)  # as of another machine
    with swiftlet.write(index) as writer:
        writer.put([{"id": "new", "text": "tea"}])
    server.change = lambda found: found[:, ::-1]
    with pytest.raises(swiftlet.EmbeddingSpaceMismatch, match="embedding space"):
        swiftlet.open(index)
    refused = r"gives other embeddings now: the cosines of 3 texts .* are -?0\.\d+ on average"
    with swiftlet.write(index) as writer, pytest.raises(ArtefactError, match=refused):
        writer.put([{"id": "newer", "text": "tea"}])


def test_a_build_that_ends_early_goes_on_where_it_was(server, tmp_path):
    documents = [Document(f"{n}", "", f"loaf {n}") for n in range(80)]
    answers = 0

    def three(found: object) -> object:
        nonlocal answers
        answers += 1
        if answers == 3:
            server.faults = [answer(400, json.dumps({"error": "no credit"}))] * 100
        return found

    server.change = three
    with pytest.raises(EncoderError, match="answers 400: 'no credit'"):
        swiftlet.build(documents, tmp_path / "index", encoder=server.address, threads=1)
    server.faults, server.change = [], lambda found: found + np.float32(1e-4)
    server.asked.clear()
    swiftlet.build(documents, tmp_path / "index", encoder=server.address, threads=1)
    asked = {text for each in server.asked for text in each["input"]}
    first, last = (encoder_text(each.title, each.text) for each in (documents[0], documents[-1]))
    assert first not in asked
    assert last in asked


def test_commands_take_an_address(server, tmp_path, small_documents):
    rows = [{"_id": each.document_id, "text": each.text} for each in small_documents[::5]]
    corpus, index = tmp_path / "corpus.jsonl", tmp_path / "index"
    corpus.write_text("\n".join(map(json.dumps, rows)))
    for shard in ("1/2", "2/2"):
        out = tmp_path / "shards" / shard[0]
        options = ("--shard", shard, "--out", out, "--encoder", server.address)
        assert swiftlet_command("encode", corpus, *options).exit_code == 0
        server.change = lambda found: found + np.float32(1e-4)  # as of another machine
    made = swiftlet_command("index", "--from-shards", tmp_path / "shards", "--out", index)
    assert made.exit_code == 0, made.output
    found = swiftlet_command("search", index, "who dances for honey?", "--encoder", server.address)
    assert "bees-1" in found.output
    wrong = swiftlet_command("search", index, "honey", "--encoder", "http://127.0.0.1:9/v1?model=x")
    assert "is not reached" in refusal(wrong)
