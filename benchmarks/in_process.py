"""Searches whenever a line comes in, and writes how long each search took, as a line of JSON.

python benchmarks/in_process.py INDEX ENCODER QUERIES
"""

import json
import sys
import time
from pathlib import Path

from retrieval.searcher import Searcher


def main() -> None:
    index, encoder, queries = map(Path, sys.argv[1:])
    searcher = Searcher.open(index, encoder)
    texts = json.loads(queries.read_text("utf-8"))
    for _ in sys.stdin:
        seconds = []
        for text in texts:
            began = time.perf_counter()
            searcher.search(text)
            seconds.append(time.perf_counter() - began)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
