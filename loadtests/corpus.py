"""A larger corpus out of several collections, and queries for it.

    python -m loadtests.corpus --out CORPUS --queries DATA/web-queries DATA/boolq DATA/medquad …

Writes a BEIR folder: corpus.jsonl with the documents of all collections, in the order given, each
id with its collection's name before it; and queries.jsonl, a sample of the queries. The same
arguments give the same bytes.
"""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from loadtests.command_line import LoadTestError, Parser, number, refuse
from loadtests.queries import QUERIES_FILE, read_queries

CORPUS_FILE = "corpus.jsonl"
QUERY_SEED = 6


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the folder, or say in one sentence why not."""
    parser = Parser(prog="loadtests.corpus", description=__doc__.splitlines()[0])
    parser.add_argument("collections", type=Path, nargs="+", help="BEIR folders")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--queries", type=Path, required=True, help="file or BEIR folder")
    whole = number(1, 10_000_000, int)
    parser.add_argument("--num-queries", type=whole, default=20_000, help="as many at most")
    parser.add_argument("--every", type=whole, default=1, help="only every n-th document")
    parsed = parser.parse_args(arguments)
    try:
        documents = write_corpus(
            parsed.collections,
            parsed.out,
            queries=parsed.queries,
            num_queries=parsed.num_queries,
            every=parsed.every,
        )
    except LoadTestError as error:
        refuse(error)
    print(f"{documents:,} documents in {parsed.out}")


def write_corpus(
    collections: Sequence[Path], out: Path, *, queries: Path, num_queries: int, every: int = 1
) -> int:
    """Write corpus.jsonl and queries.jsonl into `out`; the number of documents.

    :raises LoadTestError: When a collection or the queries cannot be read, two collections have one
        name, or `out` cannot be written.
    """
    names = [collection.resolve().name for collection in collections]
    if len(set(names)) < len(names):
        raise LoadTestError(f"two of the collections have the same name: {', '.join(names)}")
    texts = read_queries(queries)
    sample = random.Random(QUERY_SEED).sample(texts, min(num_queries, len(texts)))
    count = 0
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / CORPUS_FILE).open("w", encoding="utf-8") as file:
            for collection in collections:
                for document in list(_documents(collection))[::every]:
                    print(json.dumps(document, ensure_ascii=False), file=file)
                    count += 1
        with (out / QUERIES_FILE).open("w", encoding="utf-8") as file:
            for number, text in enumerate(sample):
                print(json.dumps({"_id": str(number), "text": text}), file=file)
    except OSError as error:
        raise LoadTestError(f"{error.filename or out} refuses: {error.strerror}") from error
    return count


def _documents(collection: Path) -> Iterator[dict[str, str]]:
    file = collection / CORPUS_FILE
    if not file.is_file():
        raise LoadTestError(f"{collection} is no collection: it has no {CORPUS_FILE}")
    name = collection.resolve().name
    with file.open(encoding="utf-8") as lines:
        for line_number, line in enumerate(lines, 1):
            try:
                document = json.loads(line)
                yield {
                    "_id": f"{name}/{document['_id']}",
                    "title": document.get("title", ""),
                    "text": document["text"],
                }
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise LoadTestError(
                    f'{file}, line {line_number}: an object with "_id" and "text" is expected'
                ) from error


if __name__ == "__main__":
    main()
