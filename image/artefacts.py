"""Makes the artefacts that the image serves where no volume is mounted: given ones, or the demo's.

python artefacts.py INDEX ENCODER OUT

What is given is verified; only given/image/none stands for "none given", so that a mistyped folder
is an error and never a demo.
"""

import shutil
import sys
from pathlib import Path

import models
from indexing.build import build_index
from indexing.standard_library import read_standard_library
from retrieval.errors import RetrievalError
from retrieval.manifest import read_manifest
from retrieval.searcher import Searcher

NONE = Path("given/image/none")


def main() -> None:
    index, encoder, out = map(Path, sys.argv[1:])
    out.mkdir()
    try:
        if is_given(encoder, "encoder"):
            shutil.copytree(encoder, out / "encoder")
            encoder = out / "encoder"
        else:
            encoder = models.DEFAULT_QUERY_ENCODER
        if is_given(index, "index"):
            shutil.copytree(index, out / "index")
        else:
            build_index(read_standard_library(), models.DEFAULT_ENCODER, out / "index")
        Searcher.open(out / "index", encoder).close()
    except RetrievalError as error:
        sys.exit(f"artefacts.py: {error}")


def is_given(folder: Path, kind: str) -> bool:
    """Whether a folder is an artefact of this kind, or else the one that stands for none.

    :raises ManifestError: When it is neither.
    """
    if folder == NONE:
        return False
    read_manifest(folder, kind)
    return True


if __name__ == "__main__":
    main()
