"""What only PostgreSQL has: transactions, users and rights, exact numbers, and its own faults."""

import signal
import threading
import time
from dataclasses import replace

import psycopg
import pytest

import swiftlet
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.errors import (
    IndexServerAwayError,
    IndexServerTimeoutError,
    InvalidArgumentError,
)
from swiftlet.progress import Silence
from swiftlet.search.searcher import Searcher
from swiftlet.servers.postgres import passages as postgres_parts
from swiftlet.servers.postgres import target as postgres_target
from swiftlet.servers.postgres.table import Table
from swiftlet.servers.push import push
from swiftlet.servers.state import LONGEST_SECONDS
from swiftlet.types import Document
from tests.service.conftest import running
from tests.swiftlet.servers.conftest import LOOKUP, POSTGRES, drop, make_foreign

pytestmark = POSTGRES


def numbers(server, statement: str) -> list[tuple]:
    """The rows of a statement."""
    table = Table(server.address("numbers"))
    return table.rows(psycopg.sql.SQL(statement).format())


def test_words_and_passages_stay_counted_while_documents_change(server, pushed):
    address = pushed("counted")
    with swiftlet.write(address) as writer, swiftlet.open(address) as searcher:
        for number in range(5):
            text = "Molten rock flows, and quuxes. " * (number + 1) * 9
            writer.put([{"_id": f"{number % 3}", "text": text}, {"_id": "bees-1", "text": text}])
            writer.delete([f"{number}", "volcano-1"])
        searcher.refresh()
        ((documents,),) = numbers(server, "SELECT count(*) FROM counted_documents")
        ((passages,),) = numbers(server, "SELECT count(*) FROM counted")
        assert (searcher.num_documents, searcher.num_passages) == (documents, passages)
        assert writer.num_documents == documents
    counted = numbers(server, "SELECT word, passages FROM counted_words WHERE passages > 0")
    found = numbers(server, "SELECT word, count(*) FROM counted_postings GROUP BY word")
    assert sorted(counted) == sorted(found)


def test_a_document_that_is_replaced_by_one_of_its_size_is_noticed(pushed, small_index):
    address = pushed("noticed")
    with swiftlet.write(address) as writer, swiftlet.open(address) as searcher:
        writer.put([{"_id": "tea", "text": "Leaves are steeped."}])
        assert searcher.refresh()
        before = searcher.generation
        writer.put([{"_id": "tea", "text": "Leaves are boiled."}])
        assert searcher.refresh()
        assert searcher.generation != before
        before = searcher.generation
        push(small_index, address, overwrite=True)
        assert searcher.refresh()
        assert searcher.generation != before


def test_a_batch_with_a_bad_document_changes_nothing(pushed):
    address = pushed("atomic")
    refused = r"the document 'bad' has a character in its title that PostgreSQL cannot keep"
    with swiftlet.write(address) as writer, swiftlet.open(address) as searcher:
        bad = Document("bad", "text", title="a\0b")
        with pytest.raises(InvalidArgumentError, match=refused):
            writer.put([{"_id": "good", "text": "text"}, bad])
        assert not searcher.refresh()
        assert writer.num_documents == 60


def test_few_of_many_passages_are_found_by_the_graph_or_without_it(pushed, monkeypatch):
    documents = [{"_id": f"{n:03}", "text": f"text number {n}", "n": n} for n in range(300)]
    address = pushed("graph", documents, index_type="HNSW")
    # As if there were so many passages that those of a filter are found by the graph, too.
    monkeypatch.setattr(postgres_parts, "EXACT_UP_TO", 0)
    with swiftlet.open(address, **LOOKUP) as searcher:
        for tree, count in (({"n": {"lt": 7}}, 7), ({"n": {"gte": 7}}, 293)):
            for top_k in (1, 10, 300):
                hits = searcher.search("number 5", top_k, filter=tree, mode="dense").hits
                assert len({hit.document_id for hit in hits}) == min(top_k, count)


def test_a_search_ends_at_its_deadline_and_the_service_says_so(server, pushed):
    address = pushed("slow")
    usual, asked = {"query": "molten rock"}, {"query": "molten rock", "timeout_ms": 1500}
    with running(address, index_token=address.token) as service, service.client() as client:
        assert client.post("/search", json=usual).status_code == 200
        with psycopg.connect(
            host="127.0.0.1", port=address.port, dbname=address.database,
            user=address.token.partition(":")[0], password=address.token.partition(":")[2],
        ) as other:  # fmt: skip
            other.execute("LOCK TABLE slow, slow_postings")
            # On busy cores, the deadline can pass before the service asks the server.
            problems = []
            while "/docs#index-server-timeout" not in problems:
                assert problems == ["/docs#deadline-passed"] * len(problems)
                assert len(problems) < 5
                answer = client.post("/search", json=asked)
                assert answer.status_code == 504
                problems.append(answer.json()["type"])
        assert client.post("/search", json=usual).status_code == 200
    with Searcher.open(address, DEFAULT_QUERY_ENCODER) as searcher:
        server.signal(signal.SIGSTOP)
        try:
            began = time.perf_counter()
            with pytest.raises(IndexServerTimeoutError, match="has not answered in time"):
                searcher.search("ice", deadline=began + 0.5)
            assert time.perf_counter() - began < LONGEST_SECONDS
        finally:
            server.signal(signal.SIGCONT)
        assert searcher.search("ice", 3).hits


def test_a_database_that_is_not_there_is_named(server, small_index):
    address = replace(server.address("papers"), database="absent")
    with pytest.raises(InvalidArgumentError, match="has no database absent: create it first"):
        push(small_index, address)


def test_pgvector_may_be_in_a_schema_that_nobody_searches(server, small_index, small_searcher):
    server.execute("CREATE DATABASE apart")
    server.execute("CREATE SCHEMA extensions", database="apart")
    server.execute("CREATE EXTENSION vector SCHEMA extensions", database="apart")
    address = replace(server.address("papers"), database="apart")
    assert push(small_index, address).num_passages == 89
    with Searcher.open(address, DEFAULT_ENCODER) as remote:
        found, expected = (each.search("ice", 5) for each in (remote, small_searcher))
    assert [hit.document_id for hit in found] == [hit.document_id for hit in expected]
    server.execute("DROP DATABASE apart WITH (FORCE)")


def test_a_user_without_rights_is_refused(server, small_index, small_collection):
    server.execute("DROP ROLE IF EXISTS reader")
    server.execute("CREATE ROLE reader LOGIN PASSWORD 'secret'")
    mine = server.address("mine", "reader:secret")
    refused = r"does not permit this: permission denied .*; grant .* SWIFTLET_INDEX_TOKEN"
    with pytest.raises(InvalidArgumentError, match=refused):
        push(small_index, mine)
    with pytest.raises(InvalidArgumentError, match=refused):
        swiftlet.open(replace(small_collection, token="reader:secret"))
    server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    with (
        swiftlet.open(replace(small_collection, token="reader:secret")) as searcher,
        swiftlet.write(replace(small_collection, token="reader:secret")) as writer,
    ):
        assert searcher.search("ice", 3).hits
        with pytest.raises(InvalidArgumentError, match=refused):
            writer.delete(["bees-1"])
    server.execute("DROP OWNED BY reader")


@pytest.mark.parametrize(
    ("statements", "refused"),
    [
        (
            ["CREATE DATABASE other", "ALTER DATABASE other SET extension_control_path = '/none'"],
            "has no pgvector: install this extension on the server",
        ),
        (
            ["CREATE DATABASE other ENCODING 'SQL_ASCII' TEMPLATE template0"],
            "keeps texts as SQL_ASCII, but UTF8 is expected: create another database",
        ),
    ],
)
def test_a_database_that_cannot_have_an_index_is_refused(server, small_index, statements, refused):
    for statement in ("DROP DATABASE IF EXISTS other WITH (FORCE)", *statements):
        server.execute(statement)
    with pytest.raises(InvalidArgumentError, match=refused):
        push(small_index, replace(server.address("papers"), database="other"))


def test_tables_of_another_program_are_not_touched(server, small_index):
    make_foreign(server, "taken_words")
    with pytest.raises(InvalidArgumentError, match='"taken_words" already exists, and was not'):
        push(small_index, server.address("taken"))
    assert numbers(server, "SELECT id FROM taken_words") == []
    server.execute("DROP TABLE taken_words")
    push(small_index, server.address("taken"))


def test_an_earlier_index_stays_if_the_next_one_cannot_be_begun(pushed, small_index, monkeypatch):
    address = pushed("earlier")
    monkeypatch.setattr(postgres_target, "_OTHER_TABLES", "SELECT no_such_column")
    with pytest.raises(swiftlet.RetrievalError, match="refuses: column"):
        push(small_index, address, overwrite=True)
    with swiftlet.open(address) as searcher:
        assert searcher.search("ice", 3).hits


def test_a_searcher_goes_on_after_the_server_was_restarted(server, small_collection):
    with Searcher.open(small_collection, DEFAULT_QUERY_ENCODER) as searcher:
        expected = searcher.search("ice", 3).hits
        server.kill()
        try:
            with pytest.raises(IndexServerAwayError, match=r"does not answer$"):
                searcher.search("ice", 3)
        finally:
            server.start()
        assert searcher.search("ice", 3).hits == expected


def test_many_threads_search_at_once(small_collection):
    with Searcher.open(small_collection, DEFAULT_QUERY_ENCODER) as searcher:
        expected = [hit.document_id for hit in searcher.search("ice", 5)]
        found: list[list[str]] = []

        def search() -> None:
            found.extend([hit.document_id for hit in searcher.search("ice", 5)] for _ in range(5))

        threads = [threading.Thread(target=search) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [expected] * 40


def test_without_its_table_a_writer_says_so(server, pushed):
    address = pushed("gone")
    with swiftlet.write(address) as writer:
        drop(server, address)
        with pytest.raises(InvalidArgumentError, match=r"there is no .*/gone: make it by swiftlet"):
            writer.delete(["bees-1"])


def test_a_push_beside_another_one_is_refused(server, small_index, monkeypatch):
    monkeypatch.setattr(postgres_target, "_BATCH_PASSAGES", 20)

    class Beside(Silence):
        def advance(self, count: int = 1) -> None:
            server.execute("UPDATE twice_index SET state = '77'")

    address = server.address("twice")
    with pytest.raises(InvalidArgumentError, match=r"another push is writing postgresql://.*twice"):
        push(small_index, address, progress=Beside())
    server.execute("UPDATE twice_index SET state = num_passages::text")
    assert push(small_index, address).num_passages == 89


def test_a_name_that_an_index_of_the_server_needs_is_named_if_it_is_taken(server, small_index):
    server.execute("CREATE TABLE hidden_by_count (number int)")
    with pytest.raises(InvalidArgumentError, match='something else of the name "hidden_by_count"'):
        push(small_index, server.address("hidden"))
    server.execute("DROP TABLE hidden_by_count")
    assert push(small_index, server.address("hidden")).num_passages == 89


def test_a_server_without_tls_is_named_if_tls_is_demanded(small_collection, monkeypatch):
    monkeypatch.setenv("PGSSLMODE", "require")
    with pytest.raises(InvalidArgumentError, match=r"with this TLS .*: check the port, PGSSLMODE"):
        swiftlet.open(small_collection)
