"""What suggested titles take of a core and of memory: python -m benchmarks.titles 15000 1000000

The titles have 2 to 8 words, drawn from a fifth as many, and are typed with two letters exchanged.
"""

import random
import sqlite3
import sys
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
import psutil

from measuring.machine import describe_machine
from swiftlet.index.documents.store import SCHEMA, DocumentStore
from swiftlet.index.lexical.titles import TitleIndex

INSERT = f"INSERT INTO documents VALUES (?, ?, ?, '{{}}', '[]', '{'text ' * 60}')"

for count in map(int, sys.argv[1:]):
    rng = random.Random(0)
    words = [
        "".join(rng.choices("etaoinshrdlucm", k=rng.randint(3, 10))) for _ in range(count // 5)
    ]
    weights = [*accumulate(1 / (rank + 10) for rank in range(len(words)))]
    titles = (rng.choices(words, cum_weights=weights, k=rng.randint(2, 8)) for _ in range(count))
    with TemporaryDirectory() as folder:
        path = Path(folder, "documents.sqlite")
        with sqlite3.connect(path) as store:
            store.executescript(SCHEMA)
            rows = ((row, f"document-{row}", " ".join(each)) for row, each in enumerate(titles))
            store.executemany(INSERT, rows)
        process, began = psutil.Process(), process_time()
        before = process.memory_full_info().uss
        base = DocumentStore(path)
        index = TitleIndex(base, lambda: True)
        base.close()
        seconds, used = process_time() - began, process.memory_full_info().uss - before
    times = []
    for one, other in zip(
        rng.choices(words, k=1000), rng.choices(words[:100], k=1000), strict=True
    ):
        typed, began = (
            f"{other} {one[0]}{one[2]}{one[1]}{one[3:]}"[: rng.randint(2, 16)],
            process_time(),
        )
        index.find(typed, 8)
        times.append(1000 * (process_time() - began))
    median, most = np.percentile(times, [50, 99])
    print(f"{count} titles: {seconds:.1f} s, {used / 2**20:.0f} MiB; {median:.1f} to {most:.1f} ms")
print(describe_machine(["tantivy"], threads="1, and one of tantivy's"))
