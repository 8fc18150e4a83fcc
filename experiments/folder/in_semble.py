"""Runs in Semble's environment, without Swiftlet: makes its model, or times its search."""

import json
import os
import sys
from pathlib import Path
from time import monotonic, process_time

import numpy as np

_CHUNKS, _FILES = 50, 10


def model(work: Path) -> None:
    """Make Semble's kind of model of a vector for each token, and a tokenizer."""
    from model2vec import StaticModel
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{work / 'tokenizer.json'}")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    made = StaticModel(np.load(work / "vectors.npy"), tokenizer, normalize=True)
    made.save_pretrained(work / "model")


def search(work: Path, timed: str) -> None:
    """Index a folder, print when the first search was answered, and write the files found."""
    from semble import SembleIndex
    from semble.types import ContentType

    index = SembleIndex.from_path(work / "folder", ContentType.DOCS, model_path=f"{work / 'model'}")
    index.search("first")
    # The processes that cut files have ended.
    answered, processor = monotonic(), sum(os.times()[:4])
    queries = json.loads((work / "queries.json").read_text())
    texts = [*queries.values()][: int(timed)]
    before = process_time()
    for text in texts:
        index.search(text, _FILES)
    query = (process_time() - before) / len(texts)
    run = {}
    for name, text in queries.items():
        files = dict.fromkeys(each.chunk.file_path for each in index.search(text, _CHUNKS))
        run[name] = [*files][:_FILES]
    (work / "run.json").write_text(json.dumps(run))
    sizes = {"documents": index.stats.indexed_files, "passages": index.stats.total_chunks}
    print(json.dumps(sizes | {"answered": answered, "processor": processor, "query": query}))


if __name__ == "__main__" and len(sys.argv) > 1:  # no script for people, so not listed
    step, folder, *rest = sys.argv[1:]
    if step == "model":
        model(Path(folder))
    else:
        search(Path(folder), *rest)
