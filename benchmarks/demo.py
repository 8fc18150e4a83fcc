"""`make demo` as a newcomer meets it: a fresh clone, the first answer over HTTP, a later start.

    python benchmarks/demo.py

Needs git and make, and a port that is free. Writes docs/results/demo.md.
"""

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from evaluation.machine import describe_machine

QUERIES = [
    "run a function in several processes",
    "split a path into folder and file name",
    "the most common elements of a list",
    "read a zip archive",
    "measure how long a piece of code takes",
]
LONGEST_SECONDS = 600
POLL_SECONDS = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8471)
    port = parser.parse_args().port
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "swiftlet"
        subprocess.run(["git", "clone", "--quiet", str(root), str(clone)], check=True)
        first, hits = time_demo(clone, port)
        later, _ = time_demo(clone, port)
    table = "\n".join(
        f"| {query} | {', '.join(f'`{hit}`' for hit in found)} |" for query, found in hits.items()
    )
    page = f"""# The demo

Made by `python benchmarks/demo.py`, which clones the project into an empty folder and runs
`make demo` there, with whatever pip has cached of the packages.
{describe_machine(["onnxruntime", "faiss-cpu"], threads="all cores")}

| from `make demo` to the first answer over HTTP | seconds |
|---|---|
| first run: virtual environment, packages, index | {first:.1f} |
| later start | {later:.2f} |

| query | first hits |
|---|---|
{table}
"""
    (root / "docs" / "results" / "demo.md").write_text(page)
    print(page)


def time_demo(clone: Path, port: int) -> tuple[float, dict[str, list[str]]]:
    """Seconds until the demo answers, and what it finds."""
    started = time.perf_counter()
    demo = subprocess.Popen(
        ["make", "demo", f"PORT={port}"],
        cwd=clone,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while True:
            try:
                search(port, QUERIES[0])
                break
            except (urllib.error.URLError, ConnectionError):
                if demo.poll() is not None or time.perf_counter() - started > LONGEST_SECONDS:
                    raise SystemExit("the demo did not start") from None
                time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - started
        return seconds, {query: search(port, query) for query in QUERIES}
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        demo.wait(timeout=60)


def search(port: int, query: str) -> list[str]:
    url = f"http://127.0.0.1:{port}/search?{urllib.parse.urlencode({'q': query, 'top_k': 3})}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return [
            hit["passage"]["text"].splitlines()[0] if hit["passage"]["text"] else hit["document_id"]
            for hit in json.load(answer)["hits"]
        ]


if __name__ == "__main__":
    main()
