"""Errors of the export."""

from swiftlet.retrieval.errors import RetrievalError


class ExportError(RetrievalError):
    """A model cannot be exported, or the exported model gives other embeddings than torch."""
