"""The figures of each run."""

import shutil
from argparse import Namespace
from pathlib import Path

from experiments.folder.edits import of_day
from experiments.folder.first import of_first, of_query
from experiments.folder.peer import of_semble
from measuring.results import Figures

_KINDS = {"first": of_first, "query": of_query, "semble": of_semble, "day": of_day}


def figures_of(options: Namespace, kind: str, name: str) -> Figures:
    """The figures of a collection's first answer, of its peer, or of a day of edits."""
    work = Path(options.work, f"{kind} {name}")
    shutil.rmtree(work, ignore_errors=True)
    return _KINDS[kind](options, name, work)
