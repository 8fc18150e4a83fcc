"""Errors of the export."""

from swiftlet.errors import RetrievalError


class ExportError(RetrievalError):
    """A model cannot be exported, or the exported model gives other embeddings than torch."""
