"""Walks all crash points and flips bits, while random histories run; writes the page.

    python -m tests.crashes --hours 1 --seed 1 --out docs/results/crashes.json

The walk is the same each time. The histories begin with the seed, which is printed for each; with
the same seed they are the same, but for the moments at which services are killed.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

from measuring.command_line import script_parser
from measuring.machine import describe_machine
from measuring.results import Figures, write
from tests.crashes import bits, recorder

TEMPLATE = "tests/crashes/crashes.md.j2"
MODEL_COMMANDS = {"export": (2, 10), "train": (10, 50)}
"""What tests/crashes/models.py walks; of how many changes one, and of how many calls that fail."""


def walks(
    *, every: int = 1, losses_every: int = 4, histories: int = 5, models_every: int = 1
) -> list[Figures]:
    """The parts of the walk: kills and losses of power, also of random histories, then faults.

    :param every: Let calls fail at every so many points only.
    :param losses_every: Lose power after every so many changes only.
    :param models_every: Walk so many times fewer points of exports and trainings.
    """
    plain = {"length": 0, "seed": 0, "losses": 1, "every": losses_every}
    of_seed = {**plain, "length": 25, "every": 2 * losses_every}
    faults = {**plain, "every": 2 * every}
    return [
        *(
            {"command": command, "faults": fails, "every": models_every * each}
            for command, of_kinds in MODEL_COMMANDS.items()
            for fails, each in zip((False, True), of_kinds, strict=True)
        ),
        plain,
        *({**of_seed, "seed": seed} for seed in range(1, histories + 1)),
        *(
            {**faults, "first": first, "warm": warm}
            for first in (1, 1 + every)
            for warm in (False, True)
        ),
    ]


def walk(parts: Sequence[Figures], work: Path, processes: int) -> Figures:
    """What the parts of the walk find, together."""

    def run(number: int) -> Figures:
        folder = work / f"{number}"
        folder.mkdir()
        arguments = [folder, json.dumps(parts[number])]
        module = f"tests.crashes.{'models' if 'command' in parts[number] else 'walk'}"
        found: Figures = json.loads(recorder.run(module, arguments, work))
        print(parts[number], found["points"], file=sys.stderr, flush=True)
        return found

    with ThreadPoolExecutor(processes) as pool:
        return together([*pool.map(run, range(len(parts)))])


def together(tallies: Sequence[Figures]) -> Figures:
    """The tallies of several parts as one."""
    counts = "points", "operations", "answers"
    sums = {name: sum((Counter(each[name]) for each in tallies), Counter()) for name in counts}
    recoveries = [each for tally in tallies for each in tally["recoveries"]]
    return {
        **sums,
        "recovery_mean_seconds": fmean(recoveries or [0.0]),
        "recovery_worst_seconds": max(recoveries, default=0.0),
        "wrong": [each for tally in tallies for each in tally["wrong"]],
    }


def main() -> None:
    """Walk, run histories until the hours are over, and write the page; fail if it is not clean."""
    parser = script_parser(__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="of random histories")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first history")
    parser.add_argument("--every", type=int, default=1, help="so many points: one fails")
    parser.add_argument("--flips", type=int, default=bits.FLIPS, help="of bits in each file")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--cuts", type=Path, help="what tests/swiftlet/servers/test_cuts.py wrote to CRASH_FIGURES"
    )
    parser.add_argument("--out", type=Path, help="raw figures; the page is beside them")
    asked = parser.parse_args()
    shared = Path("/dev/shm")
    place = shared if shared.is_dir() else None
    with (
        tempfile.TemporaryDirectory(dir=place, prefix="swiftlet-crashes-") as folder,
        ThreadPoolExecutor(1) as beside,
    ):
        work = Path(folder)
        recorder.compile_into(work)
        machine = [work, asked.seed, 3600 * asked.hours]
        histories = beside.submit(recorder.run, "tests.crashes.machine", machine, work)
        began = time.monotonic()
        found = walk(walks(every=asked.every), work, asked.processes)
        walked = time.monotonic() - began
        flipped = bits.walk(bits.NAMES, work, flips=asked.flips)
        run = json.loads(histories.result())
    figures = {
        "template": TEMPLATE,
        "walk": found,
        "walk_minutes": walked / 60,
        "bits": flipped,
        "cuts": json.loads(asked.cuts.read_text("utf-8")) if asked.cuts else {},
        "machine_run": run,
        "first_seed": asked.seed,
        "hours": asked.hours,
        "every": asked.every,
        "machine": describe_machine(["hypothesis", "numpy", "tantivy", "faiss-cpu"], threads="1"),
    }
    if asked.out is not None:
        print(write(asked.out, figures))
    failure = figures["machine_run"]["failure"]
    if wrong := [*found["wrong"], *flipped["wrong"], *([failure] if failure else [])]:
        print(json.dumps(wrong, indent=1))
        sys.exit(f"{len(wrong)} wrong")


if __name__ == "__main__":
    main()
