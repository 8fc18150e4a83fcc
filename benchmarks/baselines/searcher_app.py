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

from service.schemas import SearchAnswer
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.retrieval.searcher import Searcher

app = FastAPI(telemetry={"tracing": False, "metrics": False, "logs": False})
searcher = Searcher.open(Path(os.environ["INDEX"]), DEFAULT_QUERY_ENCODER)
for text in ("warm up", "many words " * 100):
    searcher.search(text)

requests = Counter("plain_requests", "Requests.", ["route", "status"])
request_seconds = Histogram("plain_request_seconds", "Their time.", ["route"])
stage_seconds = Histogram("plain_stage_seconds", "The time of stages.", ["stage"])


class SearchRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    top_k: Annotated[int, Field(ge=1, le=1000)] = 10
    include_text: bool = True


def find(asked: SearchRequest, response: Response) -> dict[str, Any]:
    """The answer, with its headers and metrics."""
    with request_seconds.labels("/search").time():
        found = searcher.search(asked.query, asked.top_k, include_text=asked.include_text)
        stages = dict(zip(searcher.stage_names, found.stage_seconds, strict=True))
        for stage, seconds in stages.items():
            stage_seconds.labels(stage).observe(seconds)
        timing = [f"{stage};dur={1000 * seconds:.3f}" for stage, seconds in stages.items()]
        response.headers["Server-Timing"] = ", ".join(timing)
        response.headers["X-Request-Id"] = secrets.token_hex(8)
        hits = [
            {
                "document_id": hit.document_id, "score": hit.score, "title": hit.title,
                "passage": {
                    "passage_id": hit.passage.passage_id, "start": hit.passage.start,
                    "end": hit.passage.end, "text": hit.passage.text,
                },
                "metadata": hit.metadata,
            }
            for hit in found.hits
        ]  # fmt: skip
    requests.labels("/search", "200").inc()
    return {"hits": hits, "index": "plain"}


def answer_bytes(asked: SearchRequest) -> Response:
    """The answer as bytes, which FastAPI passes on; searches on a thread of FastAPI's pool."""
    response = Response(media_type="application/json")
    response.body = to_json(find(asked, response))
    response.headers["Content-Length"] = str(len(response.body))
    return response


async def answer_bytes_on_the_loop(asked: SearchRequest) -> Response:
    return answer_bytes(asked)


async def answer_models(asked: SearchRequest, response: Response) -> SearchAnswer:
    """Searches on the event loop; FastAPI validates and writes the answer."""
    return find(asked, response)  # type: ignore[return-value]


@app.get("/health/ready")
async def ready() -> dict[str, str]:
    return {"status": "ready"}


if os.environ["ANSWER"] == "models":
    app.post("/search")(answer_models)
else:
    app.post("/search")(
        answer_bytes if os.environ["RUN"] == "threads" else answer_bytes_on_the_loop
    )
