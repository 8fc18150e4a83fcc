"""The demo's corpus, which ships: the documentation of the Python standard library."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from swiftlet.types import Document

NAME = "python-3.11.7"
"""Names the corpus, and the folder of its index."""

FACETS = ("package", "language")
"""The fields of the metadata to choose by."""

_FILE = Path(__file__).parent / f"{NAME}.jsonl.gz"


def read_standard_library() -> Iterator[Document]:
    """The public modules of the standard library that have documentation, by name.

    A document is a module; its sections are the docstrings of the module and of its functions,
    classes and methods.
    """
    with gzip.open(_FILE, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield Document(**json.loads(line))
