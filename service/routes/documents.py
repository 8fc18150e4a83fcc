"""Stored documents, and a description of the index."""

from functools import partial
from importlib.metadata import version
from platform import python_version

from fastapi import APIRouter, Request
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.live.state import LoadedIndex, ReadyService
from service.wire.context import STAGES
from service.wire.openapi import problems
from service.wire.problems import DeadlineError, QueueFullError
from service.wire.schemas import (
    DocumentAnswer,
    EncoderAnswer,
    IndexAnswer,
    InfoAnswer,
    RerankerAnswer,
)
from swiftlet.errors import UnknownDocumentError
from swiftlet.search.searcher import Searcher

_TITLES, _LONGEST_TITLE, _EXAMPLES = 20, 80, 5

_VERSIONS = {
    "python": python_version(),
    **{
        name: version(name)
        for name in ("swiftlet-retrieval", "faiss-cpu", "onnxruntime", "tokenizers", "fastapi")
    },
}

router = APIRouter()


@router.get(
    "/documents/{document_id:path}",
    response_model=DocumentAnswer,
    responses=problems(UnknownDocumentError, QueueFullError, DeadlineError),
)
async def document(document_id: str, request: Request, service: ReadyService) -> Response:
    """Give a stored document."""
    (completed,) = await service.executor.map(
        partial(_document, service.loaded),
        [document_id],
        deadline=request.state.context.began + service.limits.timeout_ms / 1000,
        receive=request.receive,
    )
    return Response(completed.result, media_type="application/json")


def _document(loaded: LoadedIndex, document_id: str) -> bytes:
    found = loaded.searcher.document(document_id)
    answer = {
        "document_id": found.document_id,
        "title": found.title,
        "text": found.text,
        "metadata": found.metadata,
    }
    return to_json(answer, inf_nan_mode="null")


def _examples(searcher: Searcher) -> list[str]:
    """Short titles, from all parts of the corpus."""
    titles = dict.fromkeys(map(str.strip, searcher.parts.store.titles(_TITLES).values()))
    short = [title for title in titles if 0 < len(title) <= _LONGEST_TITLE]
    return short[:: -(-len(short) // _EXAMPLES) or 1]


@router.get("/info", responses=problems())
async def info(service: ReadyService) -> InfoAnswer:
    """The index and the encoder in use, and the limits."""
    loaded = service.loaded
    searcher = loaded.searcher
    reranker = searcher.reranker
    index, encoder = searcher.index_manifest, searcher.encoder_manifest
    return InfoAnswer(
        embedding_space=index.embedding_space,
        encoder=EncoderAnswer(
            name=encoder.details.get("name", ""),
            precision=loaded.precision,
            dim=encoder.dim,
            max_tokens=searcher.encoder.max_tokens,
            fingerprint=encoder.fingerprint,
            details=dict(encoder.details),
        ),
        index=IndexAnswer(
            fingerprint=loaded.generation,
            num_documents=searcher.num_documents,
            num_passages=searcher.num_passages,
            modes=list(searcher.modes),
            weight=searcher.weight,
            facets=list(searcher.facet_fields),
            fields=list(searcher.fields),
            examples=await run_in_threadpool(_examples, searcher),
            created_by=index.created_by,
            recall=index.details.get("recall", {}),
            details=dict(index.details),
        ),
        reranker=None
        if reranker is None
        else RerankerAnswer(name=reranker.name, weight=reranker.weight),
        limits=service.limits,
        threads=service.executor.threads,
        stages=list(STAGES),
        versions=_VERSIONS,
    )
