"""Makes the collections of the experiments: from their public sources, or from a folder with them.

    python -m experiments.data --out DATA                  (all, from the addresses of data.toml)
    python -m experiments.data --out DATA --from FOLDER    (copies; every hash must be as expected)
    python -m experiments.data --out DATA scifact qmsum    (some)

What is there already is only checked. A collection that is built from its source may differ in
details from the files that the published figures were measured with; this is said, and no error.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.sources import FORMATS, Built
from measuring.command_line import Parser, existing
from measuring.experiment import settings_beside
from swiftlet.errors import RetrievalError
from swiftlet.types import Qrels

SOURCES: dict[str, dict[str, Any]] = settings_beside(__file__)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = Parser(prog="experiments.data", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SOURCES)}")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the collections")
    parser.add_argument("--from", dest="source", type=existing, help="a folder that has them")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in SOURCES]:
        parser.error(f"{unknown[0]} is no collection; known are {', '.join(SOURCES)}")
    failed = []
    for name in options.names or SOURCES:
        try:
            print(f"{name}: {made(name, options.out / name, options.source)}", flush=True)
        except (OSError, ValueError, RetrievalError) as error:
            failed.append(name)
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    if failed:
        parser.error(f"{len(failed)} of the collections are not there: {', '.join(failed)}")


def made(name: str, place: Path, source: Path | None) -> str:
    """Make a collection in `place` unless it is there; what was done.

    :raises ValueError: When a copy is not the expected one, or there is no way to build it.
    """
    if place.exists():
        return "was there" + about(different(name, place))
    place.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place.parent, prefix=".") as working:
        folder = Path(working, name)
        if source is not None:
            for file in SOURCES[name]["sha256"]:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name / file, folder / file)
            if wrong := different(name, folder):
                raise ValueError(f"{source / name / wrong[0]} is another file: its sha256 differs")
        elif "format" in SOURCES[name]:
            write_built(FORMATS[SOURCES[name]["format"]](SOURCES[name]), folder)
        else:
            raise ValueError(
                f"its files were made by hand from {SOURCES[name]['source']}: name a folder that "
                "has them by --from"
            )
        folder.rename(place)
    return ("copied" if source else "built") + about(different(name, place))


def write_built(built: Built, folder: Path) -> None:
    """Write a BEIR folder; a split `NAME_disjoint` has no document of another split."""
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", built.documents), ("queries", built.queries)):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        if lines:
            (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    for split, qrels in built.qrels.items():
        elsewhere = {document for name, found in built.qrels.items() if name not in {split, "all"}
                     for grades in found.values() for document in grades}  # fmt: skip
        alone = {query: grades for query, grades in qrels.items() if not elsewhere & grades.keys()}
        write_qrels(qrels, folder / "qrels" / f"{split}.tsv")
        write_qrels(alone, folder / "qrels" / f"{split}_disjoint.tsv")


def write_qrels(qrels: Qrels, path: Path) -> None:
    """Write judgements as a file with a head."""
    rows = [f"{q}\t{d}\t{grade}" for q, grades in qrels.items() for d, grade in grades.items()]
    path.write_text("\n".join(["query-id\tcorpus-id\tscore", *rows, ""]), "utf-8")


def different(name: str, place: Path) -> list[str]:
    """The files of a collection that are not those of the published figures."""
    return [
        file
        for file, expected in SOURCES[name]["sha256"].items()
        if not (place / file).is_file()
        or sha256((place / file).read_bytes()).hexdigest() != expected
    ]


def about(files: Sequence[str]) -> str:
    if not files:
        return ", as in the published figures"
    return f"; not as in the published figures: {', '.join(files)}"


if __name__ == "__main__":
    main()
