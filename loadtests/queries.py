"""The queries that a load test asks: real ones, from a file."""

import json
from pathlib import Path

from loadtests.command_line import LoadTestError

QUERIES_FILE = "queries.jsonl"


def read_queries(path: Path) -> list[str]:
    """The queries of a `.jsonl` file or BEIR folder ("text" of each line), or of a text file.

    Blank lines of a text file are left out.

    :raises LoadTestError: When the file is missing or not UTF-8, has no query, or has a line that
        is no object with a text in "text".
    """
    file = path / QUERIES_FILE if path.is_dir() else path
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError as error:
        raise LoadTestError(f"the queries {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LoadTestError(f"the queries {file} are not UTF-8: {error}") from error
    if file.suffix == ".jsonl":
        queries = [_text(file, number, line) for number, line in enumerate(lines, 1)]
    else:
        queries = [line.strip() for line in lines if line.strip()]
    if not queries:
        raise LoadTestError(f"the queries {file} are none; at least 1 is expected")
    return queries


def _text(file: Path, number: int, line: str) -> str:
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError):
        text = None
    if not isinstance(text, str) or not text.strip():
        raise LoadTestError(
            f'{file}, line {number}: an object with a text that is not blank in "text" is expected'
        )
    return text
