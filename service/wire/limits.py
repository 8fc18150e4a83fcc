"""The limits of one request."""

from pydantic import BaseModel, ConfigDict

from service.wire.body import SMALL_BODY_BYTES

MEBIBYTE = 2**20


class Limits(BaseModel):
    """The limits of one request."""

    model_config = ConfigDict(frozen=True)

    max_query_chars: int = 10_000
    max_top_k: int = 1_000
    max_reranked: int = 100
    max_offset: int = 10_000
    max_batch_queries: int = 64
    max_batch_hits: int = 10_000
    max_search_body_bytes: int = SMALL_BODY_BYTES
    max_documents: int = 1_000
    max_body_bytes: int = 4 * MEBIBYTE
    max_unread_bytes: int = 64 * MEBIBYTE
    body_timeout_ms: int = 5_000
    timeout_ms: int = 5_000
