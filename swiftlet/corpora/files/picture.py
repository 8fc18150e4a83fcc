"""Pictures of text, read by Tesseract where it is on the machine."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from swiftlet.corpora.files.text import Note, Part

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")
PROGRAM = "tesseract"
MOST_SECONDS = 120
"""For recognising the text of a picture."""


def picture_parts(path: Path, content: bytes, _: Note) -> Iterator[Part]:
    """The document of a picture that shows text."""
    command = [PROGRAM, "stdin", "stdout"]
    try:
        result = subprocess.run(  # noqa: S603 - the arguments are ours
            command, input=content, capture_output=True, timeout=MOST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"recognising its text takes more than {MOST_SECONDS} s") from error
    if result.returncode:
        lines = result.stderr.decode(errors="replace").strip().splitlines() or ["it fails"]
        raise ValueError(f"{PROGRAM} says: {lines[-1]}")
    if text := result.stdout.decode(errors="replace").replace("\f", "").strip():
        yield Part(text, path.stem)
