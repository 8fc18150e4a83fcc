"""What can stand in the way of an export."""

from retrieval.errors import RetrievalError


class ExportError(RetrievalError):
    """A model cannot be exported, or what was exported is not what torch computes."""
