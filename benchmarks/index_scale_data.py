"""The passages of benchmarks/index_scale.py, real and generated ones, and judged queries."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

import swiftlet
from export.quality import METRIC, Collection
from swiftlet.corpora.collections import read_documents
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.evaluation.metrics import evaluate
from swiftlet.index.building.sample_queries import sample_queries
from swiftlet.index.directory import DOCUMENTS_FILE, PASSAGE_TO_DOCUMENT_FILE
from swiftlet.index.documents.store import connect_read_only
from swiftlet.index.documents.writer import StoredCorpus
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.faiss_library import faiss
from swiftlet.types import Document, Embeddings, Qrels, Run

SETTINGS = tomllib.loads(Path(__file__).with_name("index_scale.toml").read_text())
BLOCK, SPANS = 65_536, 1_000


@dataclass(frozen=True)
class Passages:
    """The embeddings of all passages in one file, real ones first, and queries with judgements."""

    work: Path
    num_real: int
    owners: np.ndarray
    qrels: Qrels
    queries: Embeddings
    spans: Embeddings

    @classmethod
    def prepared(cls, data: Path, work: Path) -> "Passages":
        """Read the collections, encode their passages, and generate more."""
        work.mkdir(parents=True, exist_ok=True)
        if not (work / "real").exists():
            tokens = SETTINGS["passage_tokens"]
            swiftlet.build(
                documents(data), work / "real", passage_tokens=tokens, overlap_tokens=0,
                factory="Flat", language=None, progress=swiftlet.ProgressLine(),
            )  # fmt: skip
        order = np.load(work / "real" / PASSAGE_TO_DOCUMENT_FILE)
        order = np.random.default_rng(0).permutation(len(order))
        with connect_read_only(work / "real" / DOCUMENTS_FILE) as store:
            found = store.execute("SELECT document_id FROM documents ORDER BY document_id")
            ids = np.array([document_id for (document_id,) in found])
        owners = ids[np.load(work / "real" / PASSAGE_TO_DOCUMENT_FILE)[order]]
        encoder = OnnxEncoder.load(DEFAULT_ENCODER)
        texts: list[str] = []
        qrels: dict[str, dict[str, int]] = {}
        for name, split in SETTINGS["collections"].items():
            if split:
                collection = Collection.read(data / name, split)
                random = np.random.default_rng(0)
                chosen = random.permutation(len(collection.queries))[: SETTINGS["queries"]]
                judged = [collection.queries[place] for place in chosen]
                texts += [query.text for query in judged]
                for query in judged:
                    grades = collection.qrels[query.query_id]
                    qrels[f"{name}/{query.query_id}"] = {
                        f"{name}/{each}": grade for each, grade in grades.items()
                    }
        corpus = StoredCorpus(work / "real" / DOCUMENTS_FILE, len(ids), len(order), "")
        spans = sample_queries(corpus, SPANS, np.random.default_rng(1))
        encoded = [encode_texts(encoder, each) for each in (texts, spans)]
        most = max(size["passages"] for size in SETTINGS["sizes"])
        path = work / "embeddings.f32"
        if not path.exists():
            real = FaissIndex.load(work / "real" / FaissIndex.file_name).embeddings(order)
            partial_path = path.with_suffix(".partial")
            with partial_path.open("wb") as file:
                real.tofile(file)
                for block in generated(real, most - len(real)):
                    block.tofile(file)
            partial_path.rename(path)
        return cls(work, len(order), owners, qrels, *encoded)

    @cached_property
    def rows(self) -> Embeddings:
        """All embeddings (n, dim), mapped from their file."""
        dim = self.queries.shape[1]
        return np.memmap(self.work / "embeddings.f32", dtype=np.float32, mode="r").reshape(-1, dim)

    def place(self, count: int, start: int, factory: str) -> Path:
        """Where the files of an index begin."""
        return self.work / f"{count}-{start}-{factory}".replace(",", "-")

    def quality(self, found: Sequence[tuple[Embeddings, np.ndarray]], start: int) -> float:
        """Mean nDCG@10 of the queries: candidates of each among the rows from `start` on."""
        run: Run = {}
        for query, (scores, rows) in zip(self.qrels, found, strict=True):
            places = rows + start
            real = places < self.num_real
            names = np.where(real, self.owners[np.where(real, places, 0)], "generated")
            best: dict[str, float] = {}
            for number, (name, score) in enumerate(zip(names, scores.tolist(), strict=True)):
                best.setdefault(f"{name} {number}" if name == "generated" else name, score)
            run[query] = dict([*best.items()][:10])
        return evaluate(run, self.qrels, [METRIC])[METRIC]


def documents(data: Path) -> Iterator[Document]:
    """The documents of all collections; each id begins with the name of its collection."""
    for name in SETTINGS["collections"]:
        for document in read_documents(data / name):
            yield replace(document, document_id=f"{name}/{document.document_id}")


def generated(real: Embeddings, count: int) -> Iterator[Embeddings]:
    """Blocks of `count` embeddings in all, made from the `real` ones (n, dim)."""
    clustering = faiss.Kmeans(real.shape[1], SETTINGS["clusters"], niter=10, seed=0, spherical=True)
    clustering.train(real)
    cluster = clustering.assign(real)[1]
    by_cluster = np.argsort(cluster, kind="stable")
    sizes = np.bincount(cluster, minlength=SETTINGS["clusters"])
    starts = np.cumsum(sizes) - sizes
    means = np.stack([real[cluster == each].mean(axis=0) for each in range(len(sizes))])
    random = np.random.default_rng(0)
    for start in range(0, count, BLOCK):
        first = random.integers(len(real), size=min(BLOCK, count - start))
        of = cluster[first]
        second = by_cluster[starts[of] + random.integers(sizes[of])]
        block = means[of] + (real[first] + real[second] - 2 * means[of]) / np.float32(2**0.5)
        yield block / np.linalg.norm(block, axis=1, keepdims=True)
