"""Collections in BEIR's layout: whether they are there, and small copies for trial runs."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

DOCUMENTS, QUERIES = 300, 40
"""Those of a small copy; a document that answers a kept query is kept, too."""

CORPUS_FILE, QUERIES_FILE = "corpus.jsonl", "queries.jsonl"


class MissingCollectionError(Exception):
    """A collection is missing; the message names it, and how to make it."""


def check_collections(data: Path, names: Sequence[str]) -> None:
    """Check that a folder has these collections.

    :raises MissingCollectionError: When it has not.
    """
    lost = [name for name in names if not (data / name / QUERIES_FILE).is_file()
            and not (data / name / CORPUS_FILE).is_file()]  # fmt: skip
    if lost:
        raise MissingCollectionError(
            f"{data} has no collection {', '.join(lost)}: "
            f"run python -m experiments.data --out {data} {' '.join(lost)}"
        )


def small_copy(data: Path, names: Sequence[str], out: Path) -> Path:
    """Write small copies of collections into the folder `out`, unless they are there."""
    for name in names:
        if not (out / name).is_dir():
            _copy(data / name, out / name)
    return out


def _copy(source: Path, out: Path) -> None:
    kept_queries, kept_documents = set[str](), set[str]()
    (out / "qrels").mkdir(parents=True)
    for path in sorted((source / "qrels").glob("*.tsv")):
        head, *rows = path.read_text("utf-8").splitlines()
        by_query: dict[str, list[str]] = {}
        for row in rows:
            by_query.setdefault(row.split("\t")[0], []).append(row)
        chosen = [row for query in islice(by_query, QUERIES) for row in by_query[query]]
        (out / "qrels" / path.name).write_text("\n".join([head, *chosen, ""]), "utf-8")
        kept_queries |= {row.split("\t")[0] for row in chosen}
        kept_documents |= {row.split("\t")[1] for row in chosen}
    for name, wanted, least in (
        (QUERIES_FILE, kept_queries, 0 if kept_queries else 10 * DOCUMENTS),
        (CORPUS_FILE, kept_documents, DOCUMENTS),
    ):
        if (source / name).is_file():
            lines = [
                json.dumps(record, ensure_ascii=False) + "\n"
                for number, record in enumerate(_records(source / name))
                if record["_id"] in wanted or number < least
            ]
            (out / name).write_text("".join(lines), "utf-8")


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
