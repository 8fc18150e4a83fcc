"""What all experiments share: options, settings, runs that are measured once, and a page."""

import json
import os
import shutil
import sys
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Any

from measuring.command_line import Parser, folder_with, script_parser
from measuring.machine import describe_machine
from measuring.results import RESULTS, ROOT, Figures, write
from swiftlet.errors import RetrievalError
from swiftlet.progress import Silence

RUNS = ROOT / "runs"
"""Where experiments keep their runs; git ignores it."""

SMOKE = "--smoke"
DOCUMENTS, QUERIES, CHARACTERS = 300, 60, 1000
"""Those of a small copy, and the most characters of a text; a document that answers a kept query is
kept, too. The queries are spread over the collection, since neighbours often have a document in
common, and 50 that have none are the fewest to learn from.
"""

Run = tuple[Any, ...]
Found = Mapping[Run, Figures]


def settings_beside(script: str) -> dict[str, Any]:
    """The TOML beside a script; with --smoke, its table `smoke` is laid over the others.

    Processes that an experiment starts have its arguments, so they read the same settings.
    """
    found = tomllib.loads(Path(script).with_suffix(".toml").read_text("utf-8"))
    smoke = found.pop("smoke", {})
    return laid_over(found, smoke) if SMOKE in sys.argv else found


def laid_over(tables: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The tables with some values changed; what is not named in `changes` stays."""
    return {**tables} | {
        name: laid_over(tables[name], value)
        if isinstance(value, dict) and isinstance(tables.get(name), dict)
        else value
        for name, value in changes.items()
    }


@dataclass(frozen=True)
class Experiment:
    """A page of docs/results, and all that its script measures.

    `collections` are the folders of DATA that it reads, `packages` those that its page names.
    """

    name: str
    about: str | None
    collections: Sequence[str]
    packages: Sequence[str]
    seeds: int = 0
    jobs: int = 1

    def options(self, **more: Any) -> Namespace:
        """The options of this process. With --smoke, all that is written is below `runs/smoke`."""
        given: dict[str, Any] = {"data": folder_with(*self.collections)}
        given |= {"work": RUNS / self.name, "jobs": self.jobs}
        given |= {"seeds": self.seeds} if self.seeds else {}
        given |= {"raw": RESULTS / f"{self.name}.json", "again": False, "smoke": False}
        parser = script_parser(self.about, **given, **more)
        options = parser.parse_args()
        options.data, options.work = options.data.resolve(), options.work.resolve()
        if options.smoke:
            self._make_small(options, parser)
        os.environ["OMP_NUM_THREADS"] = "1"  # also in the processes that are started
        options.work.mkdir(parents=True, exist_ok=True)
        return options

    def main(
        self,
        runs: Callable[[Namespace], Sequence[Sequence[Run]]],
        measure: Callable[..., Figures],
        collect: Callable[[Namespace, Found], Figures],
        draw: Callable[[Path, Figures, Path], None] | None = None,
        **more: Any,
    ) -> None:
        """Measure all runs, and write their page.

        :param runs: The runs of each stage, which is finished before the next one begins.
        :param measure: Called with the options and the parts of a run, in a process of its own.
        :param collect: The figures of the page from those of the runs.
        :param draw: Called with `work`, the figures and a folder, draws the pictures of the page.
        """
        options = self.options(**more)
        try:
            figures = collect(options, self.measured(options, runs(options), measure))
        except RetrievalError as error:
            raise SystemExit(f"experiments: {error}") from error
        threads = f"1 a run, {options.jobs} runs at a time"
        figures = {
            "template": f"experiments/{self.name}.md.j2",
            "machine": describe_machine(self.packages, threads=threads),
            **figures,
        }
        options.raw.parent.mkdir(parents=True, exist_ok=True)
        if draw:
            draw(options.work, figures, options.raw.parent)
        print(write(options.raw, figures))

    def measured(
        self, options: Namespace, stages: Sequence[Sequence[Run]], measure: Callable[..., Figures]
    ) -> dict[Run, Figures]:
        """The figures of each run, measured in processes of one thread, or read from `work`."""
        every = list(dict.fromkeys(run for stage in stages for run in stage))
        if options.again:
            for run in every:
                file_of(options.work, run).unlink(missing_ok=True)
        left = [run for run in every if not file_of(options.work, run).is_file()]
        if not left:
            print(
                f"nothing to measure: all {len(every)} runs of {self.name} are in {options.work}. "
                "The page is written from them; --again measures them anew"
            )
        began, done = monotonic(), 0
        for stage in stages:
            wanted = [run for run in stage if run in left]
            for run in self._each(options, wanted, measure):
                done += 1
                minutes = (monotonic() - began) / 60
                print(f"{done} of {len(left)}, after {minutes:.1f} min: {name_of(run)}", flush=True)
        return {run: json.loads(file_of(options.work, run).read_text("utf-8")) for run in every}

    @staticmethod
    def _each(
        options: Namespace, runs: Sequence[Run], measure: Callable[..., Figures]
    ) -> Iterator[Run]:
        if runs:
            with ProcessPoolExecutor(options.jobs, get_context("spawn")) as executor:
                waiting = {executor.submit(_measured, measure, options, run): run for run in runs}
                for each in as_completed(waiting):
                    each.result()
                    yield waiting[each]

    def _make_small(self, options: Namespace, parser: Parser) -> None:
        folder = RUNS / "smoke"
        small = small_copy(options.data, self.collections, folder / "data")
        changes = {
            "data": small if self.collections else options.data,
            "work": folder / self.name,
            "seeds": 1,
        }
        for name, value in (changes | {"raw": folder / "results" / options.raw.name}).items():
            if name != "raw" or options.raw == parser.get_default("raw"):
                setattr(options, name, value)
        shutil.rmtree(options.work, ignore_errors=True)


def _measured(measure: Callable[..., Figures], options: Namespace, run: Run) -> None:
    kept(file_of(options.work, run), lambda: measure(options, *run))


def kept(path: Path, measure: Callable[[], Any]) -> Any:
    """Figures that are measured once, and later read from their file."""
    if not path.is_file():
        content = json.dumps(measure())
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(content)
        partial.rename(path)
    return json.loads(path.read_text("utf-8"))


def name_of(run: Run) -> str:
    """The name of a run, as its files have it."""
    return ", ".join(map(str, run))


def file_of(work: Path, run: Run) -> Path:
    """The file of the figures of a run."""
    return work / f"{name_of(run)}.json"


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
        spread = islice(by_query, 0, None, max(1, len(by_query) // QUERIES))
        chosen = [row for query in islice(spread, QUERIES) for row in by_query[query]]
        (out / "qrels" / path.name).write_text("\n".join([head, *chosen, ""]), "utf-8")
        kept_queries |= {row.split("\t")[0] for row in chosen}
        kept_documents |= {row.split("\t")[1] for row in chosen}
    for name, wanted, least in (
        ("queries.jsonl", kept_queries, 0 if kept_queries else 10 * DOCUMENTS),
        ("corpus.jsonl", kept_documents, DOCUMENTS),
    ):
        if not (source / name).is_file():
            continue
        with (source / name).open("rb") as file, (out / name).open("w") as copy:
            for number, record in enumerate(map(json.loads, file)):
                if number < least or record["_id"] in wanted:
                    record["text"] = record["text"][:CHARACTERS]
                    copy.write(f"{json.dumps(record)}\n")


class Stages(Silence):
    """The stages of a training that have begun, and when."""

    def __init__(self) -> None:
        self.began: list[tuple[str, float]] = []

    def begin(self, name: str, total: int | None, done: int = 0) -> None:  # noqa: ARG002
        """Note a stage."""
        self.began.append((name, monotonic()))

    def describe(self, text: str) -> None:
        """Part of the protocol of progress; nothing is shown."""
