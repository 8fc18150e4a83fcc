"""The corpus of the plain service: the passages of an index, and their embeddings in fp32.

python -m benchmarks.baselines.plain_corpus INDEX OUT
"""

import json
import sys
from pathlib import Path

import numpy as np

from swiftlet.retrieval.documents import DocumentStore
from swiftlet.retrieval.engines.faiss_index import FaissIndex
from swiftlet.retrieval.searcher import DOCUMENTS_FILE


def write_corpus(index: Path, corpus: Path) -> None:
    """Write the passages of `index` and their embeddings into a new folder."""
    corpus.mkdir()
    embeddings = FaissIndex.load(index / FaissIndex.file_name)
    rows = np.arange(embeddings.size)
    flat = FaissIndex.create("Flat", embeddings.dim)
    flat.add(embeddings.embeddings(rows))
    flat.save(corpus / "passages.faiss")
    store = DocumentStore(index / DOCUMENTS_FILE)
    with (corpus / "passages.jsonl").open("w", encoding="utf-8") as file:
        for passage, title, _ in store.passages(rows.tolist()):
            fields = {"passage_id": passage.passage_id, "document_id": passage.document_id}
            print(json.dumps(fields | {"title": title, "text": passage.text}), file=file)
    store.close()


if __name__ == "__main__":
    write_corpus(*map(Path, sys.argv[1:]))
