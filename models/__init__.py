"""The encoders that ship with Swiftlet, as artefact directories beside this file."""

from pathlib import Path

DEFAULT_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2"
"""The encoder that documents are indexed with unless told otherwise."""

DEFAULT_QUERY_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2-query-2-layers"
"""The small encoder of the same embedding space that queries go through unless told otherwise."""
