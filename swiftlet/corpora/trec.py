"""Qrels and runs in TREC's and BEIR's formats."""

import gzip
import math
import re
from collections.abc import Callable, Collection
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from swiftlet.corpora.identifiers import check_id, check_trec_id
from swiftlet.corpora.irds import is_dataset, parse_dataset
from swiftlet.corpora.lines import LineError, parse_lines, read_errors, wrong_columns
from swiftlet.disk import storage_errors
from swiftlet.errors import CollectionError, InvalidArgumentError, shown
from swiftlet.publication import replace_file
from swiftlet.types import Qrels, Run

_BEIR_HEADER = ["query-id", "corpus-id", "score"]
_WHITE_SPACE = re.compile(r"[ \t]+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")
_NUMBER = re.compile(r"[+-]?([0-9]++\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

_Value = TypeVar("_Value", int, float)


def read_qrels(path: Path) -> Qrels:
    """Read qrels in BEIR's format or TREC's, plain or gzipped, or the qrels of `irds:NAME`.

    BEIR's has tab-separated columns under the header "query-id corpus-id score"; TREC's, which MS
    MARCO uses too, has four without a header: query, iteration, document, grade.

    :raises CollectionError: When the file cannot be read, holds no judgement, or a line has other
        columns, a grade that is no integer, or another grade for a pair judged before.
    :raises MissingExtraError: When `path` is `irds:NAME` and ir_datasets is not installed.
    """
    qrels = _dataset_qrels(path) if is_dataset(path) else _file_qrels(path)
    if not qrels:
        raise CollectionError(path, "there is no judgement")
    return qrels


def _dataset_qrels(path: Path) -> Qrels:
    qrels: Qrels = {}

    def put(record: Any) -> None:
        if not isinstance(record.relevance, int):
            raise LineError(f"the grade {shown(record.relevance)} is not an integer")
        _put(qrels, record.query_id, record.doc_id, record.relevance, "grade", check_id)

    for _ in parse_dataset(path, "qrels", put):
        pass
    return qrels


def _file_qrels(path: Path) -> Qrels:
    with read_errors(path):
        is_folder = path.is_dir()
    if is_folder:
        splits = ", ".join(_splits(path)) or "none"
        raise CollectionError(
            path, f"a folder where a qrels file is expected; its splits: {splits}"
        )
    qrels: Qrels = {}
    beir: bool | None = None

    def parse(line: str) -> None:
        nonlocal beir
        if beir is None:
            beir = [column.strip().lower() for column in line.split("\t")] == _BEIR_HEADER
            if beir:
                return
        columns = line.split("\t") if beir else _WHITE_SPACE.split(line.strip(" \t"))
        if len(columns) != (3 if beir else 4):
            expected = "3" if beir else "4 (or 3 under the header query-id, corpus-id, score)"
            raise wrong_columns(len(columns), expected)
        query_id, document_id = columns[0], columns[-2]
        if not _INTEGER.fullmatch(columns[-1]):
            raise LineError(f"the grade {shown(columns[-1])} is not an integer of up to 9 digits")
        check = check_id if beir else check_trec_id
        _put(qrels, query_id, document_id, int(columns[-1]), "grade", check)

    for _ in parse_lines(path, parse):
        pass
    return qrels


def qrels_path(folder: Path, split: str) -> Path:
    """The path of the qrels of `split`, such as "test", in a BEIR folder.

    :raises CollectionError: When it has none; lists the splits that it has.
    """
    splits = _splits(folder)
    if split not in splits:
        there = f"there are {', '.join(splits)}" if splits else "there are none"
        raise CollectionError(folder, f"no qrels of the split {shown(split)}; {there}")
    return splits[split]


def check_qrels(
    path: Path, qrels: Qrels, query_ids: Collection[str], document_exists: Callable[[str], bool]
) -> None:
    """Refuse qrels of other queries or of another corpus, which would be scored as not found.

    :param path: Where the qrels were read from, for the message.
    :raises CollectionError: When a query or a document of `qrels` does not exist; names the first.
    """
    queries = [query_id for query_id in qrels if query_id not in query_ids]
    judged = dict.fromkeys(document_id for grades in qrels.values() for document_id in grades)
    documents = [document_id for document_id in judged if not document_exists(document_id)]
    found = [
        f"{len(unknown)} unknown {name} ids ({', '.join(map(shown, islice(unknown, 3)))}"
        f"{', …' if len(unknown) > 3 else ''})"
        for name, unknown in (("query", queries), ("document", documents))
        if unknown
    ]
    if found:
        raise CollectionError(path, f"the qrels name {' and '.join(found)}")


def read_run(path: Path) -> Run:
    """Read a TREC run: query, "Q0", document, rank, score, tag; ranks and tag are ignored.

    :raises CollectionError: When the file cannot be read or is empty, or a line has other columns,
        a score that is no finite number, or another score for a pair scored before.
    """
    run: Run = {}

    def parse(line: str) -> None:
        columns = _WHITE_SPACE.split(line.strip(" \t"))
        if len(columns) != 6:
            raise wrong_columns(len(columns), "6")
        query_id, _, document_id, _, score, _ = columns
        if not _NUMBER.fullmatch(score) or not math.isfinite(float(score)):
            raise LineError(f"the score {shown(score)} is not a finite number")
        _put(run, query_id, document_id, float(score), "score", check_trec_id)

    for _ in parse_lines(path, parse):
        pass
    return run


def write_run(path: Path, run: Run, tag: str) -> None:
    """Write a TREC run, gzipped if `path` ends in .gz; an error leaves `path` unchanged.

    The documents of a query are sorted by score, equal scores by id, with ranks from 1. Scores are
    written with enough digits to read the same numbers back.

    :raises CollectionError: When `read_run` would refuse an id or a score.
    :raises InvalidArgumentError: When the tag is empty or holds white space, or `path` is no file.
    :raises StorageError: When the file system refuses.
    """
    if not tag or any(character.isspace() for character in tag):
        raise InvalidArgumentError(f"the tag {shown(tag)} of a run must be one word")
    with storage_errors(path):
        if path.exists() and not path.is_file():
            raise InvalidArgumentError(f"{path} is not a file, so no run is written there")
    lines = [line for query_id in run for line in _run_lines(path, query_id, run[query_id], tag)]
    content = "".join(lines).encode()
    if path.suffix.lower() == ".gz":
        content = gzip.compress(content, mtime=0)
    replace_file(path, content)


def _run_lines(path: Path, query_id: str, scores: dict[str, float], tag: str) -> list[str]:
    with read_errors(path):
        check_trec_id(query_id, "query id")
        for document_id, score in scores.items():
            check_trec_id(document_id, "document id")
            if not math.isfinite(score):
                raise LineError(f"the score of {shown(document_id)} is {score}")
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    # repr of a Python float is the shortest text that is read as the same number.
    return [
        f"{query_id} Q0 {document_id} {rank} {float(score)!r} {tag}\n"
        for rank, (document_id, score) in enumerate(ranked, start=1)
    ]


def _put(
    table: dict[str, dict[str, _Value]],
    query_id: str,
    document_id: str,
    value: _Value,
    name: str,
    check: Callable[[object, str], str],
) -> None:
    check(query_id, "query id")
    check(document_id, "document id")
    earlier = table.setdefault(query_id, {}).setdefault(document_id, value)
    if earlier != value:
        raise LineError(
            f"the document {shown(document_id)} has the {name} {value} for the query "
            f"{shown(query_id)}, but had {earlier} before"
        )


def _splits(folder: Path) -> dict[str, Path]:
    qrels = folder if folder.name == "qrels" else folder / "qrels"
    paths = sorted([*qrels.glob("*.tsv"), *qrels.glob("*.tsv.gz")])
    return {path.name.split(".tsv")[0]: path for path in paths}
