import asyncio
import base64
from time import thread_time

import httpx
import numpy as np
import openai
import pytest

from service.wire.answers import EmbeddingsAnswer
from service.wire.requests import Limits

TEXTS = ["how is bread baked", "ICE ❄ café", "who dances\tfor honey?"]


@pytest.fixture
def openai_client(server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="anything", max_retries=0)


@pytest.mark.parametrize("encoding_format", ["float", "base64", None])
def test_the_openai_package_gets_the_encoders_embeddings(
    openai_client, small_searcher, encoding_format
):
    options = {"encoding_format": encoding_format} if encoding_format else {}
    answer = openai_client.embeddings.create(model="any", input=TEXTS, **options)
    found = [
        np.frombuffer(base64.b64decode(each.embedding), "<f4")
        if isinstance(each.embedding, str)
        else np.array(each.embedding, np.float32)
        for each in answer.data
    ]
    assert np.array_equal(found, small_searcher.encoder.encode(TEXTS))
    assert [each.index for each in answer.data] == [0, 1, 2]
    assert answer.model == small_searcher.encoder_manifest.details["name"]
    tokens = sum(len(small_searcher.encoder.tokenise(text)) for text in TEXTS)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == tokens


def test_the_openai_package_gets_a_batch_of_its_own_limit(openai_client, small_searcher):
    texts = [f"loaf {number}" for number in range(2048)]
    found = openai_client.embeddings.create(model="any", input=texts).data
    assert [each.index for each in found] == [*range(2048)]
    expected = small_searcher.encoder.encode(texts[::500])
    assert np.array_equal(np.array([each.embedding for each in found[::500]], "f"), expected)


def test_the_openai_package_lists_the_encoder(openai_client):
    (model,) = openai_client.models.list().data
    assert model.id == openai_client.embeddings.create(model="any", input="a").model


def test_the_openai_package_understands_a_refusal(openai_client):
    with pytest.raises(openai.UnprocessableEntityError) as refusal:
        openai_client.embeddings.create(model="any", input="a", dimensions=3)
    assert "dimensions is 3; 384 is expected, or none" in refusal.value.body["detail"]


def test_a_single_text_is_a_list_of_one(client):
    asked = {"model": "any", "encoding_format": "float", "dimensions": 384, "user": "me"}
    one = client.post("/v1/embeddings", json={"input": TEXTS[0], **asked})
    assert one.json() == client.post("/v1/embeddings", json={"input": TEXTS[:1]}).json()
    read = EmbeddingsAnswer.model_validate_json(one.content, strict=True)
    assert read.model_dump(exclude_unset=True) == one.json()
    absent = dict.fromkeys(["model", "encoding_format", "input_type", "dimensions", "user"])
    nulls = client.post("/v1/embeddings", json={"input": TEXTS[0], **absent})
    assert nulls.content == one.content


def test_the_limits_hold_for_embeddings_too(make_application, small_searcher):
    ask = make_application(small_searcher, Limits(max_embeddings=1)).ask
    assert ask("POST", "/v1/embeddings", json={"input": ["a"]}).status_code == 200
    assert ask("POST", "/v1/embeddings", json={"input": ["a", "b"]}).status_code == 413


def test_a_large_batch_holds_up_no_other_request(make_application, small_searcher):
    """On one core, in processor time: a search waits for few texts, and nothing for the answer."""
    app = make_application(small_searcher, threads=1).app

    async def shares() -> tuple[float, float]:
        """The largest shares of the batch's time: of a search, and of a turn of the event loop."""
        searches, turns = [], []
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            body = {"input": [f"loaf {number}" for number in range(1024)]}
            batch = asyncio.create_task(client.post("/v1/embeddings", json=body))
            while not batch.done():
                began = thread_time()
                if len(turns) % 10 == 9:
                    assert (await client.get("/search?q=bread")).is_success
                    searches.append(thread_time() - began)
                    began = thread_time()
                await asyncio.sleep(0)
                turns.append(thread_time() - began)
            assert len((await batch).json()["data"]) == 1024
        spent = sum(searches) + sum(turns)
        return max(searches) / spent, max(turns) / spent

    # Several times, since caches are cold at first, and other programs may use them.
    measured = (asyncio.run(shares()) for _ in range(3))
    assert any(search < 0.1 and turn < 0.05 for search, turn in measured)
