"""A plain search service: FastAPI, Sentence Transformers and a flat FAISS index.

    INDEX=folder MODEL=folder [ONNX_FILE=onnx/model_int8.onnx] uvicorn plain:app

It searches the passages and embeddings of `INDEX`, held in memory. The model runs in torch, or with
`ONNX_FILE` in Sentence Transformers' ONNX back end.
"""

import os
from pathlib import Path

import faiss
import numpy as np
import torch
from fastapi import FastAPI
from pydantic import BaseModel, Field
from sentence_transformers import SentenceTransformer

from benchmarks.peers import int8_peer
from swiftlet.index.documents.store import DOCUMENTS_FILE, DocumentStore
from swiftlet.index.vectors.faiss_index import FaissIndex

# As many threads as the process has cores; more threads would slow it down.
threads = len(os.sched_getaffinity(0))
torch.set_num_threads(threads)
faiss.omp_set_num_threads(threads)

app = FastAPI()
source, directory = Path(os.environ["INDEX"]), Path(os.environ["MODEL"])
if "ONNX_FILE" in os.environ:
    model = int8_peer(directory, threads=threads, file=os.environ["ONNX_FILE"]).model
else:
    model = SentenceTransformer(str(directory), device="cpu")
stored = FaissIndex.load(source / FaissIndex.file_name)
every_row = np.arange(stored.size)
index = faiss.IndexFlatIP(stored.dim)
index.add(stored.embeddings(every_row))
fields = ("passage_id", "document_id", "text")
passages = [
    {name: getattr(passage, name) for name in fields} | {"title": title}
    for passage, title, _ in DocumentStore(source / DOCUMENTS_FILE).passages(every_row.tolist())
]


class SearchRequest(BaseModel):
    query: str = Field(min_length=1, max_length=10_000)
    top_k: int = Field(default=10, ge=1, le=1_000)


class Hit(BaseModel):
    passage_id: str
    document_id: str
    title: str
    text: str
    score: float


class SearchResponse(BaseModel):
    hits: list[Hit]


@app.get("/health")
def health() -> dict[str, str]:
    return {"status": "ready"}


@app.post("/search")
def search(request: SearchRequest) -> SearchResponse:
    embedding = model.encode([request.query], normalize_embeddings=True, show_progress_bar=False)
    scores, rows = index.search(embedding, request.top_k)
    found = zip(scores[0].tolist(), rows[0].tolist(), strict=True)
    return SearchResponse(hits=[Hit(score=score, **passages[row]) for score, row in found])
