"""Runs commands of Swiftlet, several at a time."""

import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Processes:
    """The number of processes at a time, and the threads of each."""

    jobs: int
    threads: int

    @staticmethod
    def add_options(parser: ArgumentParser, *, jobs: int = 2, threads: int = 1) -> None:
        """The options that `from_options` reads."""
        parser.add_argument("--jobs", type=int, default=jobs, help="processes at a time")
        parser.add_argument("--threads", type=int, default=threads, help="threads of each")

    @classmethod
    def from_options(cls, options: Namespace) -> "Processes":
        """The processes as set by the options."""
        return cls(options.jobs, options.threads)

    def __str__(self) -> str:
        return f"{self.threads} for each of {self.jobs} runs at a time"

    def each(self, work: Callable[[Item], None], items: Iterable[Item]) -> None:
        """Do the work for each item, `jobs` at a time; each work starts a process."""
        with ThreadPoolExecutor(self.jobs) as executor:
            list(executor.map(work, items))

    def swiftlet(self, *arguments: str, output: Path) -> tuple[int, str]:
        """Run a command of Swiftlet: its exit status, and its output, kept in the file `output`."""
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("wb") as file:
            process = subprocess.run(
                [sys.executable, "-m", "swiftlet", *arguments],
                env={**os.environ, "OMP_NUM_THREADS": str(self.threads)},
                stdout=file,
                stderr=file,
                check=False,
            )
        return process.returncode, output.read_text("utf-8")
