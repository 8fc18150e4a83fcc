"""Makes a larger corpus from several collections, and queries for it.

    python -m loadtests.corpus --out CORPUS --queries DATA/web-queries DATA/boolq DATA/medquad …

Writes a BEIR folder: corpus.jsonl with the documents of all collections, in the order given, with
the collection's name in front of each id; and queries.jsonl, a sample of the queries. The same
arguments give the same bytes.
"""

import json
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from measuring.command_line import LoadTestError, Parser, number, refuse
from measuring.traffic import QUERIES_FILE, sample_of
from swiftlet.corpora.collections import read_documents
from swiftlet.errors import RetrievalError

CORPUS_FILE = "corpus.jsonl"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the folder, or refuse in one sentence."""
    parser = Parser(prog="loadtests.corpus", description=__doc__.splitlines()[0])
    parser.add_argument("collections", type=Path, nargs="+", help="BEIR folders")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--queries", type=Path, required=True, help="file or BEIR folder")
    whole = number(1, 10_000_000, int)
    parser.add_argument("--num-queries", type=whole, default=20_000, help="as many at most")
    parser.add_argument("--every", type=whole, default=1, help="only every n-th document")
    parsed = parser.parse_args(arguments)
    try:
        documents = write_corpus(**vars(parsed))
    except (LoadTestError, RetrievalError) as error:
        refuse(str(error))
    print(f"{documents:,} documents in {parsed.out}")


def write_corpus(
    collections: Sequence[Path], out: Path, *, queries: Path, num_queries: int, every: int = 1
) -> int:
    """Write corpus.jsonl and queries.jsonl into the new folder `out`; the number of documents.

    :raises LoadTestError: When the queries cannot be read, two collections have one name, or `out`
        exists already or cannot be written.
    :raises CollectionError: When a collection cannot be read; `out` is then not made.
    """
    names = [collection.resolve().name for collection in collections]
    if len(set(names)) < len(names):
        raise LoadTestError(f"two of the collections have the same name: {', '.join(names)}")
    if out.exists():
        raise LoadTestError(f"--out {out} exists already; a new folder is expected")
    sample, count = sample_of(queries, num_queries), 0
    try:
        # In a temporary folder, so that `out` has a whole corpus.
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".") as folder:
            written = Path(folder) / out.name
            written.mkdir()
            with (written / CORPUS_FILE).open("w", encoding="utf-8") as file:
                for name, collection in zip(names, collections, strict=True):
                    for document in islice(read_documents(collection), 0, None, every):
                        record = {"_id": f"{name}/{document.document_id}"}
                        record |= {"title": document.title, "text": document.text}
                        print(json.dumps(record, ensure_ascii=False), file=file)
                        count += 1
            lines = [json.dumps({"_id": str(n), "text": text}) for n, text in enumerate(sample)]
            (written / QUERIES_FILE).write_text("".join(f"{line}\n" for line in lines), "utf-8")
            written.rename(out)
    except OSError as error:
        place = error.filename or out
        raise LoadTestError(f"{place} cannot be written: {error.strerror}") from error
    return count


if __name__ == "__main__":
    main()
