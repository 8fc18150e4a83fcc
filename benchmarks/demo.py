"""Times `make demo` for a new user: in a fresh clone to the first answer, and at a later start.

    python -m benchmarks.demo

Needs git and make. Writes docs/results/demo.json and its page.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from loadtests.command_line import script_options
from loadtests.processes import running
from loadtests.results import RESULTS, ROOT, write
from swiftlet.evaluation.machine import describe_machine

FIRST_SEARCH = "/search?q=run+a+function+in+several+processes"
LONGEST_SECONDS = 600


def main() -> None:
    options = script_options(__doc__, raw=RESULTS / "demo.json")
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "swiftlet"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        first_seconds, later_seconds = seconds_to_answer(clone), seconds_to_answer(clone)
    machine = describe_machine(["onnxruntime", "faiss-cpu"], threads="all cores")
    figures = {"first_seconds": first_seconds, "later_seconds": later_seconds}
    template = {"template": "benchmarks/demo.md.j2", "machine": machine}
    print(write(options.raw, template | figures))


def seconds_to_answer(clone: Path) -> float:
    """Seconds from `make demo` to its first answer."""
    command = f"make --directory {clone} demo PORT={{port}}"
    cores = os.sched_getaffinity(0)
    threads = {"OMP_NUM_THREADS": str(len(cores))}  # as without the variable
    with running(
        command, ready_path=FIRST_SEARCH, cores=cores, settings=threads,
        start_timeout=LONGEST_SECONDS,
    ) as demo:  # fmt: skip
        return demo.seconds_to_ready


if __name__ == "__main__":
    main()
