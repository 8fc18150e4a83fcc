"""Compares with published figures; measures the loss by int8 and the gain by maxP.

DATA is a folder that has scifact, squad-dev-v1.1, boolq, qmsum and covid-qa in BEIR's layout.

    python -m experiments.parity --data DATA

Writes docs/results/parity.json and its page; exits with 1 if a figure is out of bounds. Needs the
extra `dev`, for the torch weights. Takes about half an hour on 2 cores.
"""

import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import fmean

from export.encoder_directory import export_encoder
from export.quality import Collection
from loadtests.command_line import script_options
from loadtests.results import RESULTS, Figures, write
from swiftlet.encoders import DEFAULT_ENCODER, torch_weights
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.evaluation.exact import rank
from swiftlet.evaluation.experiment import run_queries
from swiftlet.evaluation.machine import describe_machine
from swiftlet.evaluation.metrics import evaluate
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.index.building.build import build_index
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.documents.passages import encoder_text
from swiftlet.manifest import Manifest, read_manifest
from swiftlet.processors import available_processors
from swiftlet.search.searcher import Searcher

TOLERANCE = 0.0005
LARGEST_INT8_CHANGE = 0.005
MAX_TOKENS = 256
SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
INDEXES = {name: BuildSettings(factory="Flat", **own) for name, own in SETTINGS["indexes"].items()}
PACKAGES = ["onnxruntime", "tokenizers", "torch", "sentence-transformers", "faiss-cpu", "ranx"]


def main() -> None:
    options = script_options(__doc__, data=Path, raw=RESULTS / "parity.json")
    figures = measure(options.data)
    print(write(options.raw, figures))
    if figures["failures"]:
        raise SystemExit("\n".join(figures["failures"]))


def measure(data: Path) -> Figures:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out, title = folder / "fp32", "all-MiniLM-L6-v2"
        fp32 = export_encoder(
            torch_weights(), out, name=title, max_tokens=MAX_TOKENS, precisions=["fp32"]
        )
        encoders = {
            "fp32": OnnxEncoder.load(out, precision="fp32"),
            "int8": OnnxEncoder.load(DEFAULT_ENCODER, precision="int8"),
        }
        short = [
            short_documents(Collection.read(data / name, split), encoders)
            | {"expected": expected, "source": source}
            for name, split, expected, source in SETTINGS["short"]
        ]
        collections = [Collection.read(data / name, split) for name, split in SETTINGS["long"]]
        long = [figures for each in collections for figures in long_documents(each, folder)]
    threads = f"{available_processors()}, one text a run on each"
    return {
        "template": "experiments/parity.md.j2",
        "machine": describe_machine(PACKAGES, threads=threads),
        "max_tokens": MAX_TOKENS,
        "tolerance": TOLERANCE,
        "largest_int8_change": LARGEST_INT8_CHANGE,
        "embeddings": parities(fp32, read_manifest(DEFAULT_ENCODER, "encoder")),
        "short": short,
        "long": long,
        "failures": list(out_of_bounds(short)),
    }


def parities(fp32: Manifest, int8: Manifest) -> list[Figures]:
    """The parity with torch that each export measured."""
    if fp32.embedding_space != int8.embedding_space:
        raise SystemExit("the shipped encoder was not made from these weights")
    keys = ["num_texts", "shortest_tokens", "longest_tokens", "mean_cosine", "min_cosine"]
    return [
        {"model": name} | {key: manifest.details["parity"][name][key] for key in keys}
        for name, manifest in (("fp32", fp32), ("int8", int8))
    ]


def short_documents(collection: Collection, encoders: dict[str, OnnxEncoder]) -> Figures:
    """nDCG@10 of exact search in both precisions, and the cosines of int8 with fp32."""
    texts = [encoder_text(document.title, document.text) for document in collection.documents]
    asked = [query.text for query in collection.queries]
    documents = {name: encode_texts(encoder, texts) for name, encoder in encoders.items()}
    queries = {name: encode_texts(encoder, asked) for name, encoder in encoders.items()}

    def ndcg(queries_in: str, documents_in: str) -> float:
        query_ids = [query.query_id for query in collection.queries]
        document_ids = [document.document_id for document in collection.documents]
        found = rank(query_ids, queries[queries_in], document_ids, documents[documents_in], 10)
        return evaluate(found, collection.qrels, ["nDCG@10"])["nDCG@10"]

    figures = {
        "collection": f"{collection.name} {collection.split}",
        "documents": len(texts),
        "queries": len(asked),
        "fp32": ndcg("fp32", "fp32"),
        "int8": ndcg("int8", "int8"),
        "int8_queries": ndcg("int8", "fp32"),
        "document_cosine": fmean((documents["int8"] * documents["fp32"]).sum(axis=1).tolist()),
        "query_cosine": fmean((queries["int8"] * queries["fp32"]).sum(axis=1).tolist()),
    }
    print(figures, flush=True)
    return figures


def long_documents(collection: Collection, folder: Path) -> Iterator[Figures]:
    for number, (label, build) in enumerate(INDEXES.items()):
        out = folder / f"{collection.name}-{number}"
        build_index(collection.documents, DEFAULT_ENCODER, out, build)
        with closing(Searcher.open(out, DEFAULT_ENCODER)) as searcher:
            retriever = SearcherRetriever(searcher, mode="dense")
            run = run_queries(retriever, collection.queries, top_k=10, threads=1)
            figures = {
                "collection": f"{collection.name} {collection.split}",
                "documents": searcher.num_documents,
                "queries": len(collection.queries),
                "index": label,
                "passages": searcher.num_passages,
                **evaluate(run, collection.qrels, SETTINGS["long_metrics"]),
            }
        print(figures, flush=True)
        yield figures


def out_of_bounds(short: list[Figures]) -> Iterator[str]:
    """One sentence for each figure outside its bound."""
    for each in short:
        fp32, change = each["fp32"], each["int8"] - each["fp32"]
        # Expected figures have four decimals.
        if abs(round(fp32, 4) - each["expected"]) > TOLERANCE + 1e-9:
            yield f"{each['collection']}: nDCG@10 is {fp32:.4f}, expected is {each['expected']}"
        if abs(change) > LARGEST_INT8_CHANGE:
            yield f"{each['collection']}: int8 changes nDCG@10 by {change:+.4f}"


if __name__ == "__main__":
    main()
