"""Writes the artefacts that the image serves without a volume: the given ones, or the demo's.

python artefacts.py INDEX ENCODER OUT

Given artefacts are verified. Only the folder given/deploy/image/none stands for "none given", so a
misspelt folder is an error and not replaced by the demo.
"""

import shutil
import sys
from pathlib import Path

from swiftlet import encoders
from swiftlet.demo import FACETS, read_standard_library
from swiftlet.errors import RetrievalError
from swiftlet.index.building.build import build_index
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.query_encoder import query_encoder_of
from swiftlet.manifest import read_manifest
from swiftlet.search.searcher import Searcher

NONE = Path("given/deploy/image/none")


def main() -> None:
    index, encoder, out = map(Path, sys.argv[1:])
    out.mkdir()
    try:
        has_index, has_encoder = is_given(index, "index"), is_given(encoder, "encoder")
        if has_index:
            shutil.copytree(index, out / "index")
        else:
            documents, settings = read_standard_library(), BuildSettings(facets=FACETS)
            build_index(documents, encoders.DEFAULT_ENCODER, out / "index", settings)
        if has_encoder:
            shutil.copytree(encoder, out / "encoder")
            encoder = out / "encoder"
        else:
            encoder = query_encoder_of(out / "index")
        Searcher.open(out / "index", encoder).close()
    except RetrievalError as error:
        sys.exit(f"artefacts.py: {error}")


def is_given(folder: Path, kind: str) -> bool:
    """Whether a folder is an artefact of this kind; false for the folder that stands for none.

    :raises ManifestError: When the folder is neither.
    """
    if folder == NONE:
        return False
    read_manifest(folder, kind)
    return True


if __name__ == "__main__":
    main()
