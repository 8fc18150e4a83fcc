"""A plain search service: FastAPI, Sentence Transformers and a flat FAISS index.

    CORPUS=folder MODEL=folder [ONNX_FILE=onnx/model_int8.onnx] uvicorn plain:app

`CORPUS` holds passages.jsonl and their embeddings as passages.faiss, in the same order. The model
runs in torch, or with `ONNX_FILE` in Sentence Transformers' ONNX back end.
"""

import json
import os
from pathlib import Path

import faiss
import torch
from fastapi import FastAPI
from pydantic import BaseModel, Field
from sentence_transformers import SentenceTransformer

from benchmarks.peers import int8_peer

# As many threads as the process has cores; more threads would slow it down.
threads = len(os.sched_getaffinity(0))
torch.set_num_threads(threads)
faiss.omp_set_num_threads(threads)

app = FastAPI()
corpus, directory = Path(os.environ["CORPUS"]), Path(os.environ["MODEL"])
if "ONNX_FILE" in os.environ:
    model = int8_peer(directory, threads=threads, file=os.environ["ONNX_FILE"]).model
else:
    model = SentenceTransformer(str(directory), device="cpu")
index = faiss.read_index(str(corpus / "passages.faiss"))
with (corpus / "passages.jsonl").open(encoding="utf-8") as lines:
    passages = [json.loads(line) for line in lines]


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
