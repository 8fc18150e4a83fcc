"""Judgements: lines of JSON that are only appended, and the qrels that follow from them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median_low
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from swiftlet import disk
from swiftlet.errors import CollectionError, InvalidArgumentError, shown
from swiftlet.publication import replace_file
from swiftlet.relevance.pool import Pair, Pool

FILE, QUERIES, QRELS = "judgements.jsonl", "queries.jsonl", Path("qrels") / "test.tsv"

GRADES = ("not relevant", "partly", "relevant", "exactly this")
"""What the grades 0 to 3 mean."""

MODEL = "llm:"
"""How the name of a judge begins that is a language model."""

LONGEST_NAME = 64

_HEAD = "query-id\tcorpus-id\tscore\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The grade that a judge gives a document for a query; without a grade, an earlier one goes."""

    time: float
    """Seconds since 1970."""

    judge: str
    query_id: str
    document_id: str
    grade: Annotated[int, Field(ge=0, lt=len(GRADES))] | None


_JUDGEMENT = TypeAdapter(Judgement)


@dataclass(slots=True)
class Judgements:
    """What a folder has: for each judge, the last grade of each pair."""

    grades: dict[str, dict[Pair, int]] = field(default_factory=dict)
    changed: Counter[str] = field(default_factory=Counter)
    """Documents that a judge gave a second grade without taking the first one back."""

    num_gone: int = 0
    """Grades of documents that the pool lacks; they are left out."""

    num_damaged: int = 0

    def of(self, judge: str) -> dict[Pair, int]:
        """The grades that a judge gave."""
        return self.grades.get(judge, {})

    @property
    def people(self) -> dict[Pair, int]:
        """The grades of people: where they differ, the lower one of the two in the middle."""
        given: dict[Pair, list[int]] = {}
        for judge, grades in self.grades.items():
            for pair, grade in grades.items() if not judge.startswith(MODEL) else ():
                given.setdefault(pair, []).append(grade)
        return {pair: median_low(grades) for pair, grades in given.items()}


def check_judge(name: str) -> str:
    """The name of a person who judges.

    :raises InvalidArgumentError: When it is none.
    """
    name = " ".join(name.split())
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name.startswith(MODEL):
        raise InvalidArgumentError(
            f"the judge is {shown(name)}, but a name of 1 to {LONGEST_NAME} characters that does "
            f"not begin with {MODEL!r} is expected"
        )
    return name


def append_judgements(folder: Path, judgements: Iterable[Judgement]) -> None:
    """Append judgements; all of them are on the disk when this returns, or none.

    Several processes may do so at once.

    :raises StorageError: When the disk refuses.
    """
    lines = b"".join(to_json(asdict(each)) + b"\n" for each in judgements)
    path = folder / FILE
    with disk.storage_errors(path):
        disk.append_lines(path, lines)


def read_judgements(folder: Path, pairs: Iterable[Pair]) -> Judgements:
    """Read the judgements of `pairs`; others, and damaged lines, as of a process that was killed,
    are counted.

    :raises CollectionError: When the file cannot be read.
    """
    found = Judgements()
    try:
        lines = (folder / FILE).read_bytes().splitlines()
    except FileNotFoundError:
        return found
    except OSError as error:
        raise CollectionError(folder / FILE, f"cannot be read: {error.strerror}") from error
    for line in filter(None, lines):
        try:
            each = _JUDGEMENT.validate_json(line)
        except ValidationError:
            found.num_damaged += 1
            continue
        pair = each.query_id, each.document_id
        grades = found.grades.setdefault(each.judge, {})
        earlier = grades.pop(pair, None)
        if each.grade is not None:
            grades[pair] = each.grade
            found.changed[each.judge] += earlier not in {None, each.grade}
    among = {*pairs}
    for grades in found.grades.values():
        for pair in grades.keys() - among:
            del grades[pair]
            found.num_gone += 1
    found.grades = {judge: grades for judge, grades in found.grades.items() if grades}
    return found


def write_collection(folder: Path, pool: Pool, grades: Mapping[Pair, int]) -> None:
    """Write the queries and the qrels that other tools read, in the place of earlier ones.

    :raises StorageError: When the disk refuses.
    """
    lines: Sequence[str] = [
        f"{pair[0]}\t{pair[1]}\t{grades[pair]}\n" for pair in pool.pairs if pair in grades
    ]
    queries = [to_json({"_id": each.query_id, "text": each.text}) for each in pool.queries]
    for name, content in (
        (QUERIES, b"".join(line + b"\n" for line in queries)),
        (QRELS, "".join([_HEAD, *lines]).encode()),
    ):
        path = folder / name
        with disk.storage_errors(path):
            disk.make_directory(path.parent, parents=True, exist_ok=True)
            is_old = not path.is_file() or path.read_bytes() != content
        if is_old:
            replace_file(path, content)
