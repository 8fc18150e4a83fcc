"""Times `make demo` for a new user: in a fresh clone to the first answer, and at a later start.

    python -m benchmarks.demo

Needs git and make. Writes docs/results/demo.json and its page.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from loadtests.command_line import script_options
from loadtests.processes import get, running
from loadtests.results import RESULTS, ROOT, write
from swiftlet.evaluation.machine import describe_machine

QUERIES = [
    "run a function in several processes",
    "split a path into folder and file name",
    "the most common elements of a list",
    "read a zip archive",
    "measure how long a piece of code takes",
]
LONGEST_SECONDS = 600


def main() -> None:
    raw = script_options(__doc__, raw=RESULTS / "demo.json").raw
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "swiftlet"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        first_seconds, hits = run_demo(clone)
        later_seconds, _ = run_demo(clone)
    machine = describe_machine(["onnxruntime", "faiss-cpu"], threads="all cores")
    figures = {"first_seconds": first_seconds, "later_seconds": later_seconds, "hits": hits}
    print(write(raw, {"template": "benchmarks/demo.md.j2", "machine": machine, **figures}))


def run_demo(clone: Path) -> tuple[float, dict[str, list[str]]]:
    """Seconds from `make demo` to its first answer, and the hits of each query."""
    command = f"make --directory {clone} demo PORT={{port}}"
    first_search = f"/search?{urlencode({'q': QUERIES[0]})}"
    cores = os.sched_getaffinity(0)
    threads = {"OMP_NUM_THREADS": str(len(cores))}  # as without the variable
    with running(
        command, ready_path=first_search, cores=cores, settings=threads,
        start_timeout=LONGEST_SECONDS,
    ) as demo:  # fmt: skip
        return demo.seconds_to_ready, {query: search(demo.address, query) for query in QUERIES}


def search(address: str, query: str) -> list[str]:
    """The first line of each of three hits."""
    answer = json.loads(get(f"{address}/search?{urlencode({'q': query, 'top_k': 3})}"))
    return [
        hit["passage"]["text"].splitlines()[0] if hit["passage"]["text"] else hit["document_id"]
        for hit in answer["hits"]
    ]


if __name__ == "__main__":
    main()
