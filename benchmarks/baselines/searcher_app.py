"""A FastAPI application over the same searcher, written according to FastAPI's manual.

It has validation, metrics and `Server-Timing`, but no queue, deadlines or overload control.
INDEX names the index; ANSWER is `bytes` or `models`, RUN `loop` or `threads`.
"""

import os
import secrets
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Response
from prometheus_client import Counter, Histogram
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.retrieval.searcher import Searcher

WARM_UP_QUERIES = ("warm up", "many words " * 100)

app = FastAPI(telemetry={"tracing": False, "metrics": False, "logs": False})
searcher = Searcher.open(Path(os.environ["INDEX"]), DEFAULT_QUERY_ENCODER)
for text in WARM_UP_QUERIES:
    searcher.search(text)

requests = Counter("plain_requests", "Requests.", ["route", "status"])
request_seconds = Histogram("plain_request_seconds", "Their time.", ["route"])
stage_seconds = Histogram("plain_stage_seconds", "The time of stages.", ["stage"])


class SearchRequest(BaseModel):
    """The body of a search."""

    model_config = ConfigDict(extra="forbid", strict=True)

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    top_k: Annotated[int, Field(ge=1, le=1000)] = 10
    include_text: bool = True


class Passage(BaseModel):
    """The best passage of a document."""

    passage_id: str
    start: int
    end: int
    text: str


class Hit(BaseModel):
    """A document."""

    document_id: str
    score: float
    title: str
    passage: Passage
    metadata: dict[str, Any]


class SearchAnswer(BaseModel):
    """The answer of a search."""

    hits: list[Hit]
    index: str


def find(asked: SearchRequest, response: Response) -> dict[str, Any]:
    """The answer, with its headers and metrics."""
    with request_seconds.labels("/search").time():
        found = searcher.search(asked.query, asked.top_k, include_text=asked.include_text)
        stages = list(zip(searcher.stage_names, found.stage_seconds, strict=True))
        for stage, seconds in stages:
            stage_seconds.labels(stage).observe(seconds)
        timing = ", ".join(f"{stage};dur={1000 * seconds:.3f}" for stage, seconds in stages)
        response.headers["Server-Timing"] = timing
        response.headers["X-Request-Id"] = secrets.token_hex(8)
        hits = [
            {
                "document_id": hit.document_id,
                "score": hit.score,
                "title": hit.title,
                "passage": {
                    "passage_id": hit.passage.passage_id,
                    "start": hit.passage.start,
                    "end": hit.passage.end,
                    "text": hit.passage.text,
                },
                "metadata": hit.metadata,
            }
            for hit in found.hits
        ]
    requests.labels("/search", "200").inc()
    return {"hits": hits, "index": "plain"}


def answer_bytes(asked: SearchRequest) -> Response:
    """The answer as bytes, which FastAPI passes on."""
    response = Response(media_type="application/json")
    response.body = to_json(find(asked, response))
    response.headers["Content-Length"] = str(len(response.body))
    return response


if os.environ["ANSWER"] == "models":

    @app.post("/search")
    async def search(asked: SearchRequest, response: Response) -> SearchAnswer:
        """Search on the event loop; FastAPI validates and writes the answer."""
        return find(asked, response)  # type: ignore[return-value]

elif os.environ["RUN"] == "threads":

    @app.post("/search")
    def search_on_a_thread(asked: SearchRequest) -> Response:
        """Search on a thread of FastAPI's pool."""
        return answer_bytes(asked)

else:

    @app.post("/search")
    async def search_on_the_loop(asked: SearchRequest) -> Response:
        """Search on the event loop."""
        return answer_bytes(asked)


@app.get("/health/ready")
async def ready() -> dict[str, str]:
    """Answer that the service is ready."""
    return {"status": "ready"}
