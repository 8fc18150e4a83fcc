"""Exact search: every query with every document, truncated to max_tokens."""

from collections.abc import Iterable, Sequence

import numpy as np

from swiftlet.encoders.encoder import Encoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.documents.passages import encoder_text
from swiftlet.types import Document, Embeddings, Query, Run

_QUERIES_AT_ONCE = 256


def exact_run(
    document_encoder: Encoder,
    query_encoder: Encoder,
    documents: Iterable[Document],
    queries: Iterable[Query],
    top_k: int,
    *,
    threads: int | None = None,
) -> Run:
    """The min(top_k, documents) best documents for each query, by inner product.

    A document is embedded as its title and text, truncated to the encoder's max_tokens. `threads`
    threads encode (default: the available cores).

    :raises InvalidArgumentError: When `top_k` is below 1, or the encoders differ in dim.
    """
    documents, queries = list(documents), list(queries)
    dim = query_encoder.dim
    texts = [encoder_text(document.title, document.text) for document in documents]
    return rank(
        [query.query_id for query in queries],
        # Of several vectors, a query has the first one, from the first token.
        encode_texts(query_encoder, [each.text for each in queries], threads)[:, :dim],
        [document.document_id for document in documents],
        encode_texts(document_encoder, texts, threads),
        top_k,
    )


def rank(
    query_ids: Sequence[str],
    query_embeddings: Embeddings,
    document_ids: Sequence[str],
    document_embeddings: Embeddings,
    top_k: int,
) -> Run:
    """The best `top_k` documents (m, dim) or (m, vectors · dim) for each query (n, dim).

    Results are ordered by score, then by document_id.

    :raises InvalidArgumentError: When `top_k` is below 1, or the embeddings differ in dim.
    """
    if top_k < 1:
        raise InvalidArgumentError(f"top_k is {top_k}, but at least 1 is expected")
    dim = query_embeddings.shape[1]
    if document_embeddings.shape[1] % dim:
        raise InvalidArgumentError(
            f"queries have dim {dim}, but documents have {document_embeddings.shape[1]}"
        )
    top_k = min(top_k, len(document_ids))
    run: Run = {}
    vectors = document_embeddings.reshape(-1, dim)
    for first in range(0, len(query_ids), _QUERIES_AT_ONCE):
        block = query_embeddings[first : first + _QUERIES_AT_ONCE] @ vectors.T
        block = block.reshape(len(block), len(document_ids), -1).max(axis=2)
        for query_id, scores in zip(
            query_ids[first : first + _QUERIES_AT_ONCE], block, strict=True
        ):
            run[query_id] = _best(scores, document_ids, top_k)
    return run


def _best(scores: Embeddings, document_ids: Sequence[str], top_k: int) -> dict[str, float]:
    if not top_k:
        return {}
    worst = np.partition(scores, -top_k)[-top_k]
    # All documents that tie with the last place: the order of their ids chooses among them.
    rows = np.flatnonzero(scores >= worst).tolist()
    ordered = sorted(rows, key=lambda row: (-scores[row], document_ids[row]))
    return {document_ids[row]: float(scores[row]) for row in ordered[:top_k]}
