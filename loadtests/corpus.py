"""A larger corpus out of several collections, and queries for it.

    python -m loadtests.corpus --out CORPUS --queries DATA/web-queries DATA/boolq DATA/medquad …

Writes a BEIR folder: corpus.jsonl with the documents of all collections, in the order given, each
id with its collection's name before it; and queries.jsonl, a sample of the queries. The same
arguments give the same bytes.
"""

import json
import random
import tempfile
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
        name, or `out` cannot be written or would take the place of one; `out` then stays as it is.
    """
    _check(collections, out, queries)
    texts = read_queries(queries)
    sample = random.Random(QUERY_SEED).sample(texts, min(num_queries, len(texts)))
    count = 0
    try:
        out.mkdir(parents=True, exist_ok=True)
        # Aside, so that an earlier corpus stays whole until there is another one.
        with tempfile.TemporaryDirectory(dir=out, prefix=".") as folder:
            aside = Path(folder)
            with (aside / CORPUS_FILE).open("w", encoding="utf-8") as file:
                for collection in collections:
                    for document in list(_documents(collection))[::every]:
                        print(json.dumps(document, ensure_ascii=False), file=file)
                        count += 1
            with (aside / QUERIES_FILE).open("w", encoding="utf-8") as file:
                for number, text in enumerate(sample):
                    print(json.dumps({"_id": str(number), "text": text}), file=file)
            for name in (CORPUS_FILE, QUERIES_FILE):
                (aside / name).replace(out / name)
    except OSError as error:
        raise LoadTestError(f"{error.filename or out} refuses: {error.strerror}") from error
    return count


def _check(collections: Sequence[Path], out: Path, queries: Path) -> None:
    """See to it before anything is written that all can be read, and none is written over."""
    names = [collection.resolve().name for collection in collections]
    if len(set(names)) < len(names):
        raise LoadTestError(f"two of the collections have the same name: {', '.join(names)}")
    for collection in collections:
        if not (collection / CORPUS_FILE).is_file():
            raise LoadTestError(f"{collection} is no collection: it has no {CORPUS_FILE}")
    written = {(out / name).resolve() for name in (CORPUS_FILE, QUERIES_FILE)}
    read = [collection / CORPUS_FILE for collection in collections]
    for source in (*read, queries, queries / QUERIES_FILE):
        if source.resolve() in written:
            raise LoadTestError(
                f"--out {out} would write over {source}; another folder is expected"
            )


def _documents(collection: Path) -> Iterator[dict[str, str]]:
    file = collection / CORPUS_FILE
    name = collection.resolve().name
    with file.open("rb") as lines:
        for line_number, line in enumerate(lines, 1):
            try:
                document = json.loads(line)
                identity, text = document["_id"], document["text"]
                title = document.get("title", "")
            except (ValueError, KeyError, TypeError, AttributeError):
                identity = text = title = None
            if not all(isinstance(each, str) for each in (identity, title, text)):
                raise LoadTestError(
                    f'{file}, line {line_number}: an object with texts in "_id" and "text", '
                    'and in "title" if it has one, is expected'
                )
            yield {"_id": f"{name}/{identity}", "title": title, "text": text}


if __name__ == "__main__":
    main()
