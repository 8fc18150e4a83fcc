"""The commands of docs/coming-from.md, run as they stand, on data of the system that each names."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from swiftlet.index.contents import Contents
from swiftlet.manifest import load_manifest
from tests import postgres_server
from tests.command_line import swiftlet
from tests.postgres_server import PostgresServer
from tests.swiftlet.corpora.vector_sources.elastic_server import elastic_server
from tests.swiftlet.corpora.vector_sources.test_importers import write_txtai

PAGE = (Path(__file__).parents[4] / "docs" / "coming-from.md").read_text("utf-8")
COMMANDS = {
    title: re.findall(r"```sh\n(.*?)\n```", section, re.DOTALL)
    for title, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
}
COUNT, DIM = 20, 8
IDS = [f"p{number:02}" for number in range(COUNT)]
VECTORS = np.random.default_rng(0).normal(size=(COUNT, DIM)).astype(np.float32)
ROWS = [{"id": name, "text": f"Text {name}."} for name in IDS]


def lines(path: str, rows: list[dict[str, Any]]) -> None:
    Path(path).write_text("\n".join(map(json.dumps, rows)))


def numpy_files(_: ExitStack) -> None:
    np.save("embeddings.npy", VECTORS)
    lines("corpus.jsonl", ROWS)
    Path("ids.txt").write_text("\n".join(IDS))


def faiss_files(_: ExitStack) -> None:
    index = faiss.IndexFlatIP(DIM)
    index.add(VECTORS)
    for path in ("index.faiss", "langchain/index.faiss"):
        Path(path).parent.mkdir(exist_ok=True)
        faiss.write_index(index, path)
    Path("langchain/index.pkl").touch()
    lines("corpus.jsonl", ROWS)
    lines("texts.jsonl", ROWS)


def table() -> pyarrow.Table:
    vectors = pyarrow.array([*VECTORS], pyarrow.list_(pyarrow.float32(), DIM))
    texts = [row["text"] for row in ROWS]
    return pyarrow.table({"id": IDS, "text": texts, "vector": vectors})


def tables(_: ExitStack) -> None:
    pyarrow.parquet.write_table(table(), "rows.parquet")
    vectors = VECTORS.tolist()
    both = zip(ROWS, vectors, strict=True)
    lines("rows.jsonl", [{**row, "embedding": each, "second": each} for row, each in both])


def chroma(_: ExitStack) -> None:
    chromadb = pytest.importorskip("chromadb")
    client = chromadb.PersistentClient("chroma", chromadb.Settings(anonymized_telemetry=False))
    texts = [row["text"] for row in ROWS]
    client.create_collection("papers").add(ids=IDS, embeddings=VECTORS, documents=texts)


def qdrant(stack: ExitStack) -> None:
    package = pytest.importorskip("qdrant_client")
    client = package.QdrantClient(":memory:")  # the client's own stand-in for a server
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setattr(package, "QdrantClient", lambda *_, **__: client)
    models = pytest.importorskip("qdrant_client.models")
    params = models.VectorParams(size=DIM, distance=models.Distance.EUCLID)
    points = [
        models.PointStruct(
            id=number, vector=vector.tolist(), payload={"text": ROWS[number]["text"]}
        )
        for number, vector in enumerate(VECTORS)
    ]
    for name in ("papers", "more"):
        client.create_collection(name, vectors_config=params)
        client.upsert(name, points)


def lancedb(_: ExitStack) -> None:
    lance = pytest.importorskip("lance")
    for name in ("papers", "more"):
        lance.write_dataset(table(), f"lancedb/{name}.lance")


def txtai(_: ExitStack) -> None:
    write_txtai(Path("txtai"), VECTORS, IDS)


def milvus(_: ExitStack) -> None:
    pytest.importorskip("milvus_lite")
    client = pytest.importorskip("pymilvus").MilvusClient("milvus.db")
    client.create_collection("papers", dimension=DIM, id_type="string", max_length=9)
    both = zip(ROWS, VECTORS.tolist(), strict=True)
    client.insert("papers", [{**row, "vector": vector} for row, vector in both])


def elastic(stack: ExitStack) -> dict[str, str]:
    both = zip(ROWS, VECTORS.tolist(), strict=True)
    documents = [
        {"_id": row["id"], "text": row["text"], "embedding": vector} for row, vector in both
    ]
    mapping = {"properties": {"embedding": {"type": "dense_vector", "similarity": "cosine"}}}
    host, _ = stack.enter_context(elastic_server(documents, mapping, name="papers"))
    return {"localhost:9200": host}


def pgvector(stack: ExitStack) -> dict[str, str]:
    if reason := postgres_server.hindrance():
        pytest.skip(reason)
    server = PostgresServer()
    stack.callback(server.remove)
    server.start()
    columns = f"name text PRIMARY KEY, body text, embedding vector({DIM})"
    rows = ", ".join(
        f"('{row['id']}', '{row['text']}', '{vector}')"
        for row, vector in zip(ROWS, VECTORS.tolist(), strict=True)
    )
    for statement in ("EXTENSION vector", f"TABLE papers ({columns})"):
        server.execute(f"CREATE {statement}")
    server.execute(f"INSERT INTO papers VALUES {rows}")
    address = server.address("")
    host = f"{address.token}@{address.host}:{address.port}/{address.database}"
    return {"me@localhost:5432/library": host}


PREPARED: dict[str, Callable[[ExitStack], dict[str, str] | None]] = {
    "NumPy": numpy_files,
    "FAISS": faiss_files,
    "LangChain with FAISS": faiss_files,
    "Parquet, Arrow, Hugging Face datasets and JSONL": tables,
    "Chroma": chroma,
    "Qdrant": qdrant,
    "LanceDB": lancedb,
    "txtai": txtai,
    "pgvector": pgvector,
    "Elasticsearch and OpenSearch": elastic,
    "Milvus": milvus,
}
DEAR = {"Chroma", "LanceDB", "Milvus", "pgvector", "Qdrant"}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@pytest.mark.parametrize(
    "title",
    [pytest.param(each, marks=pytest.mark.check) if each in DEAR else each for each in PREPARED],
)
def test_its_commands_make_an_index_of_all_rows(title, tmp_path, monkeypatch, stack):
    monkeypatch.chdir(tmp_path)
    others = PREPARED[title](stack) or {}
    for number, command in enumerate(COMMANDS[title]):
        for shown, meant in others.items():
            command = command.replace(shown, meant)  # noqa: PLW2901
        out = tmp_path / f"index{number}"
        program, *words = shlex.split(command)
        assert (program, words[-1]) == ("swiftlet", "index")
        result = swiftlet(*words[:-1], out)
        assert result.exit_code == 0, result.output
        documents = [*Contents(out, load_manifest(out, "index")).documents()]
        assert {each.text for each in documents} == {row["text"] for row in ROWS}
        if title != "Qdrant":  # its ids are numbers
            assert {each.document_id for each in documents} == {*IDS}


def test_each_of_its_sections_has_commands_and_each_command_is_run():
    assert {*COMMANDS} == {*PREPARED}
    assert all(COMMANDS.values())
