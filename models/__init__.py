"""The encoders that ship with Swiftlet, as artefact directories beside this file."""

from pathlib import Path

DEFAULT_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2"
"""The encoder that demo, index, search and serve use unless told otherwise."""
