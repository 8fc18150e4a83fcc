"""Training an index on busy cores: threads of FAISS that sleep while they wait, or spin.

    python -m benchmarks.busy_training

One other program computes on each core meanwhile. Writes docs/results/busy-training.json and its
page. Takes a minute on 2 cores.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, alternating, at_most, spread, write
from swiftlet.processors import available_processors

FACTORY, ROWS, DIM, ROUNDS, MOST_SECONDS = "IVF512,PQ96x4fs", 65_536, 384, 3, 8.0
SIDES = {"sleep, the default": None, "spin": "ACTIVE"}
TRAINING = f"""
import time, numpy as np
from swiftlet.index.vectors.faiss_index import FaissIndex
sample = np.random.default_rng(0).standard_normal(({ROWS}, {DIM}), dtype=np.float32)
sample /= np.linalg.norm(sample, axis=1, keepdims=True)
index = FaissIndex.create({FACTORY!r}, {DIM})
began, cpu = time.perf_counter(), time.process_time()
index.train(sample, threads={available_processors()})
print(time.perf_counter() - began, time.process_time() - cpu)
"""


def main() -> None:
    options = script_options(__doc__, raw=RESULTS / "busy-training.json")
    seconds: dict[str, list[float]] = {name: [] for name in SIDES}
    cpu: dict[str, list[float]] = {name: [] for name in SIDES}
    for name in alternating(SIDES, ROUNDS):
        environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
        if policy := SIDES[name]:
            environment["OMP_WAIT_POLICY"] = policy
        with busy_cores():
            command = [sys.executable, "-c", TRAINING]
            done = subprocess.run(command, env=environment, capture_output=True, check=True)
        for values, value in zip((seconds[name], cpu[name]), done.stdout.split(), strict=True):
            values.append(float(value))
    asleep = spread(seconds["sleep, the default"])["median"]
    figures = {
        "template": "benchmarks/busy_training.md.j2",
        "machine": describe_machine(["faiss-cpu"], threads="all cores"),
        "factory": FACTORY,
        "rows": ROWS,
        "dim": DIM,
        "rounds": ROUNDS,
        "seconds": {name: spread(values) for name, values in seconds.items()},
        "cpu_seconds": {name: spread(values) for name, values in cpu.items()},
        "bounds": [at_most("threads that sleep, s", asleep, MOST_SECONDS, "{:.1f}".format)],
    }
    print(write(options.raw, figures))


@contextmanager
def busy_cores() -> Iterator[None]:
    """Other programs that compute, one for each core."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(available_processors())]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


if __name__ == "__main__":
    main()
