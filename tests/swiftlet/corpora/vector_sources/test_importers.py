"""What other systems keep comes as they keep it, from any row on, and their faults are named."""

import base64
import json
import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.vector_sources import open_vectors
from swiftlet.errors import CollectionError
from swiftlet.types import Embeddings
from tests import postgres_server
from tests.postgres_server import PostgresServer
from tests.swiftlet.corpora.vector_sources.elastic_server import elastic_server

COUNT, DIM = 1_203, 4
IDS = [f"d{number:04}" for number in range(COUNT)]
VECTORS = np.random.default_rng(0).normal(size=(COUNT, DIM)).astype(np.float32)
VECTORS /= np.linalg.norm(VECTORS, axis=1, keepdims=True)


def check(
    metric: str | None,
    place: str | Path,
    *,
    ids: list[str] = IDS,
    count: int = COUNT,
    tolerance: float = 0.0,
    **settings: Any,
) -> None:
    source = open_vectors(place, **settings)
    assert (source.dim, source.metric, source.num_rows) == (DIM, metric, count)
    for first in (0, 5 * count // 6, count - 1, count):
        blocks = [*source.blocks(first)]
        rows = [row for block in blocks for row in block.rows]
        assert [row.get("_id", row.get("id")) for row in rows] == ids[first:count]
        assert [row["text"] for row in rows] == [f"Text {name}." for name in IDS[first:count]]
        numbers = [{**row, **row.get("metadata", {})}["n"] for row in rows]
        assert numbers == [*range(first, count)]
        vectors = [block.embeddings for block in blocks]
        found = np.concatenate([np.empty((0, DIM), np.float32), *vectors])
        np.testing.assert_allclose(found, VECTORS[first:count], rtol=0, atol=tolerance)


@pytest.mark.check
def test_a_collection_of_chroma_in_its_directory(tmp_path):
    chromadb = pytest.importorskip("chromadb")
    # Within one process, Chroma opens a directory with one kind of settings.
    settings = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(f"{tmp_path / 'chroma'}", settings)
    docs = client.create_collection("docs", metadata={"hnsw:space": "cosine"})
    metadata = [{"n": number} for number in range(COUNT)]
    texts = [f"Text {name}." for name in IDS]
    docs.add(ids=IDS, embeddings=VECTORS, documents=texts, metadatas=metadata)
    check("cosine", tmp_path / "chroma", tolerance=1e-6)  # Chroma normalises them
    client.create_collection("more")
    with pytest.raises(CollectionError, match=r"several collections, .*\?collection=NAME"):
        open_vectors(tmp_path / "chroma")
    check("cosine", f"{tmp_path / 'chroma'}?collection=docs", tolerance=1e-6)
    with pytest.raises(CollectionError, match="there is no vector"):
        open_vectors(f"{tmp_path / 'chroma'}?collection=more")


@pytest.mark.check
def test_a_collection_of_qdrant(monkeypatch):
    qdrant = pytest.importorskip("qdrant_client")
    models = qdrant.models
    client = qdrant.QdrantClient(":memory:")  # the client's own stand-in for a server
    monkeypatch.setattr(qdrant, "QdrantClient", lambda *_, **__: client)
    params = models.VectorParams(size=DIM, distance=models.Distance.DOT)
    points = [
        models.PointStruct(
            id=number, vector=vector.tolist(), payload={"text": f"Text {IDS[number]}.", "n": number}
        )
        for number, vector in enumerate(VECTORS[:100])
    ]
    client.create_collection("docs", vectors_config=params)
    client.upsert("docs", points)
    monkeypatch.setattr("swiftlet.corpora.vector_sources.qdrant.ROWS_AT_ONCE", 30)
    place = "qdrant://localhost:6333"
    check("inner_product", place, ids=[f"{number}" for number in range(100)], count=100)
    client.create_collection("two", vectors_config={"a": params, "b": params})
    manhattan = models.VectorParams(size=DIM, distance=models.Distance.MANHATTAN)
    client.create_collection("far", vectors_config=manhattan)
    with pytest.raises(CollectionError, match="several fields, a, b: --vector-field"):
        open_vectors(f"{place}/two")
    with pytest.raises(CollectionError, match="its distance is Manhattan, where Cosine, Dot"):
        open_vectors(f"{place}/far")


@pytest.mark.check
def test_a_server_that_does_not_answer_is_one_sentence():
    pytest.importorskip("qdrant_client")
    with pytest.raises(CollectionError, match=r"qdrant://127\.0\.0\.1:9/docs: cannot be read"):
        open_vectors("qdrant://key@127.0.0.1:9/docs")


@pytest.mark.check
def test_a_table_of_lancedb(tmp_path):
    lance = pytest.importorskip("lance")
    import pyarrow

    rows = pyarrow.table(
        {
            "id": IDS,
            "text": [f"Text {name}." for name in IDS],
            "n": range(COUNT),
            "vector": pyarrow.array([*VECTORS], pyarrow.list_(pyarrow.float32(), DIM)),
        }
    )
    lance.write_dataset(rows, tmp_path / "docs.lance", max_rows_per_file=500)
    check(None, tmp_path / "docs.lance")
    check(None, tmp_path)
    lance.write_dataset(rows, tmp_path / "more.lance")
    with pytest.raises(CollectionError, match=r"several tables, docs, more: “\?table=NAME”"):
        open_vectors(tmp_path)
    check(None, f"{tmp_path}?table=docs")


@pytest.mark.check
def test_a_damaged_file_of_lance_is_one_sentence(tmp_path):
    lance = pytest.importorskip("lance")
    import pyarrow

    vectors = pyarrow.array([*VECTORS[:50]], pyarrow.list_(pyarrow.float32(), DIM))
    lance.write_dataset(pyarrow.table({"id": IDS[:50], "v": vectors}), tmp_path / "docs.lance")
    random = np.random.default_rng(1)
    for file in [each for each in (tmp_path / "docs.lance").rglob("*") if each.is_file()]:
        content = file.read_bytes()
        damaged = [b"", content[: len(content) // 2]]
        for _ in range(20):
            changed = np.frombuffer(content, np.uint8).copy()
            changed[random.integers(len(content), size=8)] = random.integers(256, size=8)
            damaged.append(changed.tobytes())
        for each in damaged:
            file.write_bytes(each)
            with suppress(CollectionError):
                [*open_vectors(tmp_path / "docs.lance").blocks()]
        file.write_bytes(content)


def write_txtai(folder: Path, vectors: Embeddings, ids: list[str]) -> None:
    """The files that txtai 9 writes: the test beside asks txtai itself."""
    folder.mkdir()
    index = faiss.index_factory(vectors.shape[1], "IDMap,Flat", faiss.METRIC_INNER_PRODUCT)
    index.add_with_ids(vectors, np.arange(len(ids)))
    faiss.write_index(index, f"{folder / 'embeddings'}")
    with closing(sqlite3.connect(folder / "documents")) as database, database:
        database.execute("CREATE TABLE documents (id TEXT PRIMARY KEY, data JSON, tags, entry)")
        database.execute("CREATE TABLE sections (indexid INTEGER PRIMARY KEY, id, text, tags)")
        for number, name in enumerate(ids):
            data = json.dumps({"text": f"Text {name}.", "n": number})
            database.execute("INSERT INTO documents VALUES (?, ?, NULL, NULL)", [name, data])
            row = [number, name, f"Text {name}."]
            database.execute("INSERT INTO sections VALUES (?, ?, ?, NULL)", row)


def test_an_index_of_txtai(tmp_path):
    write_txtai(tmp_path / "txtai", VECTORS, IDS)
    check("inner_product", tmp_path / "txtai")
    (tmp_path / "txtai" / "embeddings").write_bytes(b"annoy")
    with pytest.raises(CollectionError, match="does not keep its vectors in FAISS"):
        open_vectors(tmp_path / "txtai")


BOMB = "hex(zeroblob(100000000))"
ENDLESS = (
    "WITH RECURSIVE x(n) AS (SELECT 0 UNION ALL SELECT n FROM x) "
    "SELECT n + 1 AS indexid, '' AS id, '' AS text FROM x"
)


@pytest.mark.parametrize(
    ("statements", "sentence"),
    [
        (f"DROP TABLE sections; CREATE VIEW sections AS {ENDLESS}", "it has the view 'sections'"),
        (
            "CREATE TRIGGER t AFTER INSERT ON sections BEGIN DELETE FROM sections; END",
            "it has the trigger 't'",
        ),
        (
            f"DROP TABLE sections; CREATE TABLE sections (indexid, id, text AS ({BOMB}))",
            "the computed column 'text'",
        ),
        (
            "DROP TABLE sections; CREATE VIRTUAL TABLE sections USING fts5(x)",
            "the table 'sections'",
        ),
        ("UPDATE documents SET data = 5", "documents: row 1: its data is 5, but a text"),
        ("UPDATE documents SET data = x'ff'", "documents: row 1: its data is b'"),
        ("UPDATE documents SET data = '[1,2]'", "documents: row 1: its data: .* object"),
        ("UPDATE documents SET data = '{'", "documents: row 1: its data: "),
        (
            f"UPDATE documents SET data = '{'[' * 100_000}'",
            "documents: row 1: its data: .*64 levels deep",
        ),
        ("UPDATE sections SET text = x'ff'", "documents: row 1: its text is b'"),
        ("DROP TABLE sections", "documents: cannot be read: no such table"),
    ],
)
def test_a_database_that_txtai_would_not_write_is_one_sentence(statements, sentence, tmp_path):
    write_txtai(tmp_path / "txtai", VECTORS[:3], IDS[:3])
    with closing(sqlite3.connect(tmp_path / "txtai" / "documents")) as database:
        database.executescript(statements)
        database.commit()
    with pytest.raises(CollectionError, match=sentence):
        [*open_vectors(tmp_path / "txtai").blocks()]


@pytest.mark.check
def test_an_index_that_txtai_itself_saved(tmp_path):
    txtai = pytest.importorskip("txtai")
    embeddings = txtai.Embeddings(
        method="external",
        transform=lambda texts: np.array([VECTORS[IDS.index(text[5:-1])] for text in texts]),
        content=True,
        faiss={"components": "IDMap,Flat"},
    )
    embeddings.index(
        (name, {"text": f"Text {name}.", "n": number}, None) for number, name in enumerate(IDS)
    )
    embeddings.save(f"{tmp_path / 'txtai'}")
    check("inner_product", tmp_path / "txtai", tolerance=1e-6)


@pytest.mark.check
def test_a_collection_of_milvus_lite(tmp_path):
    milvus = pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    path = tmp_path / "milvus.db"
    client = milvus.MilvusClient(f"{path}")
    client.create_collection(
        "docs", dimension=DIM, metric_type="IP", id_type="string", max_length=20,
        primary_field_name="key", vector_field_name="dense",
    )  # fmt: skip
    rows = [
        {"key": name, "dense": vector.tolist(), "text": f"Text {name}.", "n": number}
        for number, (name, vector) in enumerate(zip(IDS, VECTORS, strict=True))
    ]
    client.insert("docs", rows)
    check("inner_product", path)
    client.create_collection("more", dimension=DIM)
    with pytest.raises(CollectionError, match=r"several collections, docs, more"):
        open_vectors(path)


MAPPING = {
    "properties": {
        "text": {"type": "text"},
        "n": {"type": "long"},
        "inner": {"properties": {
            "vector": {"type": "dense_vector", "dims": DIM, "similarity": "dot_product"},
        }},
    }
}  # fmt: skip
ELASTIC = [
    {"_id": name, "text": f"Text {name}.", "n": number, "inner": {"vector": vector.tolist()}}
    for number, (name, vector) in enumerate(zip(IDS, VECTORS, strict=True))
]


def test_an_index_of_elasticsearch():
    with elastic_server(ELASTIC, MAPPING) as (host, scrolls):
        check("inner_product", f"elasticsearch://{host}/docs")
        assert not scrolls
        with pytest.raises(CollectionError, match="no field of vectors is called 'text'"):
            open_vectors(f"elasticsearch://{host}/docs", vector_field="text")
        with pytest.raises(CollectionError, match=r"refuses /more/_mapping: 404 .*not_found"):
            open_vectors(f"elasticsearch://{host}/more")


def test_an_index_of_opensearch_behind_a_password():
    vector = {"type": "knn_vector", "dimension": DIM, "method": {"space_type": "cosinesimil"}}
    mapping = {"properties": {"vector": vector}}
    rows = [{**each, "vector": each["inner"]["vector"]} for each in ELASTIC]
    version = {"distribution": "opensearch", "number": "2.19.0"}
    authorization = f"Basic {base64.b64encode(b'me:secret').decode()}"
    with elastic_server(rows, mapping, version=version, authorization=authorization) as (host, _):
        check("cosine", f"opensearch://me:secret@{host}/docs")
        with pytest.raises(CollectionError, match="401") as refused:
            open_vectors(f"opensearch://me:wrong@{host}/docs")
        assert "wrong" not in f"{refused.value}"


def test_an_elasticsearch_that_leaves_vectors_out_of_its_answers_is_asked_for_them():
    server = elastic_server(ELASTIC, MAPPING, version={"number": "9.2.1"}, excluded="inner")
    with server as (host, _):
        check("inner_product", f"elasticsearch://{host}/docs")


def test_a_document_without_a_vector_and_a_server_that_gives_up_are_named():
    without = [*ELASTIC[:5], {"_id": "bare", "text": "No vector."}, *ELASTIC[5:]]
    with elastic_server(without, MAPPING) as (host, _):
        source = open_vectors(f"elasticsearch://{host}/docs")
        with pytest.raises(CollectionError, match="docs: row 6: it has no vector"):
            [*source.blocks()]
    with elastic_server(ELASTIC, MAPPING, fails_after=1_000) as (host, scrolls):
        blocks = open_vectors(f"elasticsearch://{host}/docs").blocks()
        assert len(next(blocks).rows) == 1_000
        with pytest.raises(CollectionError, match="refuses /_search/scroll: 429"):
            next(blocks)
        assert not scrolls


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    if reason := postgres_server.hindrance():
        pytest.skip(reason)
    server = PostgresServer()
    server.start()
    try:
        server.execute("CREATE EXTENSION vector")
        yield server
    finally:
        server.remove()


@pytest.mark.check
def test_any_table_of_pgvector(postgres):
    address = postgres.address("")
    base = f"postgresql://{address.token}@{address.host}:{address.port}/{address.database}"
    kind = f"vector({DIM})"
    postgres.execute(
        f'CREATE TABLE "My Chunks" (uuid text PRIMARY KEY, body text, n int, v {kind})'
    )
    values = ", ".join(
        f"('{name}', 'Text {name}.', {number}, '{vector.tolist()}')"
        for number, (name, vector) in enumerate(zip(IDS, VECTORS, strict=True))
    )
    postgres.execute(f'INSERT INTO "My Chunks" VALUES {values}')
    fields = Fields(text=["body"])
    check(None, base, fields=fields, tolerance=1e-7)
    postgres.execute('CREATE INDEX ON "My Chunks" USING hnsw (v vector_cosine_ops)')
    check("cosine", f'{base}?table="My Chunks"&connect_timeout=5', fields=fields, tolerance=1e-7)
    postgres.execute(f"CREATE TABLE bare (name text, v {kind}, w halfvec({DIM}))")
    with pytest.raises(CollectionError, match='several tables, "My Chunks", bare: '):
        open_vectors(base)
    with pytest.raises(CollectionError, match="several columns, v, w"):
        open_vectors(f"{base}?table=bare")
    with pytest.raises(CollectionError, match="bare has no primary key: --id-field names"):
        open_vectors(f"{base}?table=bare", vector_field="w")
    postgres.execute("INSERT INTO bare VALUES ('a', NULL, '[1, 2, 3, 4]'), ('b', NULL, NULL)")
    source = open_vectors(f"{base}?table=bare", vector_field="w", fields=Fields(id="name"))
    with pytest.raises(CollectionError, match="row 2: it has no vector"):
        [*source.blocks()]
    with pytest.raises(CollectionError, match="cannot be read: relation") as refused:
        open_vectors(f"{base}?table=nothing")
    assert address.token not in f"{refused.value}"


def test_a_pickle_of_langchain_is_refused_with_the_way_round(tmp_path):
    (tmp_path / "index.pkl").write_bytes(b"")
    (tmp_path / "index.faiss").write_bytes(b"")
    with pytest.raises(CollectionError, match=r"is a pickle, which may run any program.*coming-fr"):
        open_vectors(tmp_path)
    with pytest.raises(CollectionError, match=r"a pickle may run any program.*coming-from"):
        open_vectors(tmp_path / "index.pkl")


def test_a_folder_of_qdrants_local_mode_is_refused_and_its_pickles_are_not_read(tmp_path):
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "run",)

    settings = {"vectors": {"size": DIM, "distance": "Cosine"}}
    (tmp_path / "collection" / "docs").mkdir(parents=True)
    (tmp_path / "meta.json").write_text(json.dumps({"collections": {"docs": settings}}))
    with closing(sqlite3.connect(tmp_path / "collection/docs/storage.sqlite")) as database:
        database.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        database.execute("INSERT INTO points VALUES ('1', ?)", [pickle.dumps(Evil())])
        database.commit()
    for place in (f"{tmp_path}", f"{tmp_path}?collection=docs"):
        with pytest.raises(CollectionError, match=r"as pickles, which may run any program.*server"):
            open_vectors(place)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("redis://host/index", "no vectors are recognised: one of elasticsearch://"),
        ("nowhere", "no such file or folder"),
        (".", "a saved dataset, or a folder of Chroma"),
        ("pyproject.toml", r"a file that ends in \.arrow, \.bvecs"),
    ],
)
def test_a_place_that_is_none_says_what_is_expected(place, sentence):
    with pytest.raises(CollectionError, match=sentence):
        open_vectors(place)
