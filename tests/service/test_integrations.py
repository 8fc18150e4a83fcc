"""The retrievers of other programs, with an index and with a service."""

import socket
from typing import Any

import pytest
from haystack import Pipeline
from langchain_core.documents import Document as LangChainDocument
from langchain_core.runnables import RunnableLambda

import swiftlet
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.errors import ArtefactError, FilterError, InvalidArgumentError, ServiceError
from swiftlet.integrations import haystack, langchain, llama_index

QUERY = "how is bread baked?"

Retrieved = tuple[str, str, float, dict[str, Any]]


def by_langchain(place: Any, **fields: Any) -> list[Retrieved]:
    retriever = langchain.SwiftletRetriever(place, k=4, **fields)
    chain = retriever | RunnableLambda(lambda documents: documents)
    found: list[LangChainDocument] = chain.invoke(QUERY)
    return [
        (str(each.id), each.page_content, each.metadata.pop("score"), each.metadata)
        for each in found
    ]


def by_llama_index(place: Any, **fields: Any) -> list[Retrieved]:
    found = llama_index.SwiftletRetriever(place, similarity_top_k=4, **fields).retrieve(QUERY)
    return [(each.node_id, each.text, each.score or 0.0, each.metadata) for each in found]


def by_haystack(place: Any, **fields: Any) -> list[Retrieved]:
    if "filter" in fields:
        fields["filters"] = fields.pop("filter")
    found = haystack.SwiftletRetriever(place, top_k=4, **fields).run(QUERY)["documents"]
    return [(each.id, each.content, each.score, each.meta) for each in found]


PROGRAMS = pytest.mark.parametrize("retrieve", [by_langchain, by_llama_index, by_haystack])


@PROGRAMS
def test_an_index_and_a_service_give_what_a_search_gives(retrieve, small_index, server):
    with (
        swiftlet.open(small_index) as default,
        swiftlet.open(small_index, encoder=DEFAULT_ENCODER) as searcher,
    ):
        # The service has the document encoder for queries, too.
        for place, same in (small_index, default), (f"{server.url}/", searcher), (searcher,) * 2:
            expected = same.search(QUERY, 4)
            found = retrieve(place)
            assert [each[0] for each in found] == [hit.document_id for hit in expected]
            assert [each[1] for each in found] == [hit.passage.text for hit in expected]
            assert [each[2] for each in found] == pytest.approx(
                [hit.score for hit in expected], abs=1e-5
            )
            assert found[0][3]["topic"] == expected[0].metadata["topic"]
            assert found[0][3]["title"] == expected[0].title
            filtered = retrieve(place, filter={"topic": "tides"}, mode="dense")
            assert {each[3]["topic"] for each in filtered} == {"tides"}


@PROGRAMS
def test_what_is_refused_or_away_is_one_sentence(
    retrieve, small_index, server, locked_server, tmp_path
):
    with pytest.raises(ArtefactError, match="is not a directory"):
        retrieve(tmp_path / "nowhere")
    with pytest.raises(FilterError, match="'colour'"):
        retrieve(small_index, filter={"colour": "red"})
    with pytest.raises(ServiceError, match=r"answers 422: .*'colour'"):
        retrieve(server.url, filter={"colour": "red"})
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ServiceError, match=r"cannot be reached: .*refused"):
            retrieve(f"http://127.0.0.1:{unused.getsockname()[1]}")
    with pytest.raises(ServiceError, match=r"answers 404|is not a Swiftlet service"):
        retrieve(f"{server.url}/docs")
    with pytest.raises(ServiceError, match="answers 401"):
        retrieve(locked_server.url)
    assert retrieve(locked_server.url, key=locked_server.settings["search_keys"])


def test_a_misspelt_field_is_refused(small_index):
    for retriever in (langchain, llama_index, haystack):
        with pytest.raises((TypeError, ValueError), match="filtre"):
            retriever.SwiftletRetriever(small_index, filtre={"topic": "bread"})


def test_a_pipeline_of_haystack_is_saved_without_its_key(small_index):
    pipeline = Pipeline()
    retriever = haystack.SwiftletRetriever(small_index, key="secret", top_k=2)
    pipeline.add_component("retriever", retriever)
    saved = pipeline.dumps()
    assert "secret" not in saved
    again = Pipeline.loads(saved, allowed_modules=[haystack.__name__])
    found = again.run({"retriever": {"query": QUERY, "filters": {"topic": "tides"}}})
    assert [each.meta["topic"] for each in found["retriever"]["documents"]] == ["tides"] * 2
    with (
        swiftlet.open(small_index) as searcher,
        pytest.raises(InvalidArgumentError, match="give it the index's path"),
    ):
        haystack.SwiftletRetriever(searcher).to_dict()
