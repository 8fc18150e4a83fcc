"""The titles that the service suggests: their time, their memory, and the time of a request.

    python -m benchmarks.titles 15000
    python -m benchmarks.titles 1000000

Prints one line. The titles have 2 to 8 words of one drawn vocabulary, the frequent ones often.
"""

import random
import sqlite3
import sys
import tempfile
from itertools import accumulate
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import psutil

from swiftlet.evaluation.machine import describe_machine
from swiftlet.retrieval.documents import SCHEMA, DocumentStore
from swiftlet.retrieval.lexical.titles import TitleIndex

REQUESTS, INSERT = 1000, "INSERT INTO documents VALUES (?, ?, ?, '{}', '[]', ?)"


def main() -> None:
    count, rng = int(sys.argv[1]), random.Random(0)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(rng.choices(letters, k=rng.randint(3, 10))) for _ in range(count // 5)]
    weights = [*accumulate(1 / (rank + 10) for rank in range(len(words)))]
    typed: list[str] = []

    def title() -> str:
        chosen = rng.choices(words, cum_weights=weights, k=rng.randint(2, 8))
        if len(typed) < REQUESTS and (len(word := chosen[0]) >= 4):
            typed.append(f"{word[0]}{word[2]}{word[1]}{word[3:]} {chosen[1]}"[: rng.randint(2, 16)])
        return " ".join(chosen)

    with tempfile.TemporaryDirectory() as folder, sqlite3.connect(f"{folder}/s.sqlite") as store:
        store.executescript(SCHEMA)
        rows = ((number, f"document-{number}", title(), "text " * 60) for number in range(count))
        store.executemany(INSERT, rows)
        store.commit()
        process = psutil.Process()
        before = process.memory_full_info().uss
        base, began, cpu = DocumentStore(Path(folder, "s.sqlite")), perf_counter(), process_time()
        titles = TitleIndex(base, lambda: True)
        seconds, cpu = perf_counter() - began, process_time() - cpu
        base.close()
        mebibytes = (process.memory_full_info().uss - before) / 2**20
    times = []
    for text in typed:
        began = perf_counter()
        titles.find(text, 8)
        times.append(1000 * (perf_counter() - began))
    median, high = np.percentile(times, [50, 99])
    print(
        f"{count} titles: {seconds:.2f} s ({cpu:.2f} s of a core), {mebibytes:.0f} MiB; a request "
        f"{median:.2f} ms, 99% within {high:.2f} ms. {describe_machine([], threads='1 and tantivy')}"
    )


if __name__ == "__main__":
    main()
