"""The scores of documents, which may have several vectors each."""

import torch


def scores(queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
    """Φ(q, d) of each query (n, dim) and each document (m, vectors · dim), (n, m).

    It is the largest inner product of the query with a vector of the document (002, section 3).
    """
    dim = queries.shape[1]
    products = queries @ documents.reshape(-1, dim).T
    if documents.shape[1] == dim:
        return products
    return products.reshape(len(queries), len(documents), documents.shape[1] // dim).amax(2)


def paired_scores(queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
    """Φ(q, d) of each query (n, dim) and its own document (n, vectors · dim), (n,)."""
    vectors = documents.reshape(len(queries), -1, queries.shape[1])
    return (queries.unsqueeze(1) * vectors).sum(2).amax(1)
