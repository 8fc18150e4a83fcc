"""Makes a larger corpus from several collections, and queries for it.

    python -m loadtests.corpus --out CORPUS --queries DATA/web-queries DATA/boolq DATA/medquad …

Writes a BEIR folder: corpus.jsonl with the documents of all collections, in the order given, with
the collection's name in front of each id; and queries.jsonl, a sample of the queries. The same
arguments give the same bytes.
"""

import json
import random
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from loadtests.command_line import LoadTestError, Parser, number, refuse
from loadtests.traffic import QUERIES_FILE, read_queries
from swiftlet.retrieval.corpora.collections import read_documents
from swiftlet.retrieval.errors import RetrievalError

CORPUS_FILE = "corpus.jsonl"
QUERY_SEED = 6


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
    """Write corpus.jsonl and queries.jsonl into `out`; the number of documents.

    :raises LoadTestError: When the queries cannot be read, two collections have one name, or `out`
        cannot be written or would replace one of them; `out` then stays as it is.
    :raises CollectionError: When a collection cannot be read; `out` then stays as it is.
    """
    _check(collections, out, queries)
    texts = read_queries(queries)
    sample = random.Random(QUERY_SEED).sample(texts, min(num_queries, len(texts)))
    count = 0
    try:
        out.mkdir(parents=True, exist_ok=True)
        # In a temporary folder, so that an earlier corpus stays until the new one is complete.
        with tempfile.TemporaryDirectory(dir=out, prefix=".") as folder:
            written = Path(folder)
            with (written / CORPUS_FILE).open("w", encoding="utf-8") as file:
                for collection in collections:
                    for document in islice(read_documents(collection), 0, None, every):
                        record = {"_id": f"{collection.resolve().name}/{document.document_id}"}
                        record |= {"title": document.title, "text": document.text}
                        print(json.dumps(record, ensure_ascii=False), file=file)
                        count += 1
            lines = [json.dumps({"_id": str(n), "text": text}) for n, text in enumerate(sample)]
            (written / QUERIES_FILE).write_text("".join(f"{line}\n" for line in lines), "utf-8")
            for file_name in (CORPUS_FILE, QUERIES_FILE):
                (written / file_name).replace(out / file_name)
    except OSError as error:
        place = error.filename or out
        raise LoadTestError(f"{place} cannot be written: {error.strerror}") from error
    return count


def _check(collections: Sequence[Path], out: Path, queries: Path) -> None:
    """Check before anything is written that no collection is missing or would be overwritten."""
    names = [collection.resolve().name for collection in collections]
    if len(set(names)) < len(names):
        raise LoadTestError(f"two of the collections have the same name: {', '.join(names)}")
    sources = [collection / CORPUS_FILE for collection in collections]
    for source in sources:
        if not source.is_file():
            raise LoadTestError(f"{source.parent} is no collection: it has no {CORPUS_FILE}")
    written = {(out / name).resolve() for name in (CORPUS_FILE, QUERIES_FILE)}
    for source in (*sources, queries, queries / QUERIES_FILE):
        if source.resolve() in written:
            sentence = f"--out {out} would write over {source}; another folder is expected"
            raise LoadTestError(sentence)


if __name__ == "__main__":
    main()
