"""Makes the artefacts that the image serves where no volume is mounted: given ones, or the demo's.

python artefacts.py GIVEN_INDEX GIVEN_ENCODER OUT

What is given is verified; a folder without a manifest stands for "none given".
"""

import shutil
import sys
from pathlib import Path

import models
from indexing.build import build_index
from indexing.standard_library import read_standard_library
from retrieval.errors import RetrievalError
from retrieval.manifest import FILE_NAME
from retrieval.searcher import Searcher


def main() -> None:
    index, encoder, out = map(Path, sys.argv[1:])
    out.mkdir()
    if (encoder / FILE_NAME).exists():
        shutil.copytree(encoder, out / "encoder")
        encoder = out / "encoder"
    else:
        encoder = models.DEFAULT_QUERY_ENCODER
    if (index / FILE_NAME).exists():
        shutil.copytree(index, out / "index")
    else:
        build_index(read_standard_library(), models.DEFAULT_ENCODER, out / "index")
    try:
        Searcher.open(out / "index", encoder).close()
    except RetrievalError as error:
        sys.exit(f"artefacts.py: {error}")


if __name__ == "__main__":
    main()
