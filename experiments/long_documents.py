"""Which passage contains these words? Models and BM25 by the length of passages (002, section 5).

    python -m experiments.long_documents --data DATA

DATA is the folder of the collections. Finished runs are kept in --work, and an interrupted
experiment goes on. The cross-encoder learns from longer passages with the first seed alone.
Writes docs/results/long-documents.json, its page and its picture. On 2 cores with AMX, the first
seed takes an hour; on 2 cores without it, each other seed takes nearly two.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise, product
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

import swiftlet
from experiments import hybrid
from experiments.adaptation import Stages
from experiments.pairs import Pair
from export.encoder_directory import export_encoder
from export.quality import Collection
from export.reranker_directory import export_reranker
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from measuring.runs import PRECISION, measured
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.evaluation.fidelity import Bags, Floats
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.evaluation.plots.lines import Curve, LinePanel, plot_lines
from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.index.lexical.analysis import WORD_PIECES
from swiftlet.types import Document, Query
from training.model.trained import MODEL
from training.recipes.settings import parse_tables
from training.reranking.settings import CROSS_ENCODER, RerankerRecipe
from training.reranking.train import train_reranker

SOURCE = "qmsum"
LENGTHS = (50, 100, 200, 400)
# The pooling of documents, and the size of a vector.
SYSTEMS: dict[str, dict[str, Any]] = {
    "DE-32": {"dim": 32},
    "DE-384": {"dim": 384},
    "ME-64": {"dim": 64, "vectors": 8},
    "ME-384": {"dim": 384, "vectors": 8},
}
# At the shortest length alone.
OTHER_SIZES: dict[str, dict[str, Any]] = {
    "DE-64": {"dim": 64},
    "DE-128": {"dim": 128},
    "ME-384, 3 vectors": {"dim": 384, "vectors": 3},
    "ME-384, 4 vectors": {"dim": 384, "vectors": 4},
}
# By their dimensions, and by their vectors.
BY_SIZE = (
    ("DE-32", "DE-64", "DE-128", "DE-384"),
    ("DE-384", "ME-384, 3 vectors", "ME-384, 4 vectors", "ME-384"),
)
# How alike the vectors of a passage are, and how often the first is the best one. All seeds but the
# first have it.
OF_VECTORS = ("alike", "first_is_best")
HYBRID = "HYBRID-ME-384-uni"
CROSS = "CROSS-ATTENTION"
# MRR@10 of retrieval from three million passages, and of the re-ranking of 200 by cross-attention:
# table A.1, with 768 for the largest size.
PAPER = {
    "DE-32": (70.1, 53.2, 34.0, 27.6),
    "DE-384": (90.2, 85.6, 72.9, 63.0),
    "ME-64": (92.9, 91.7, 84.6, 72.8),
    "ME-384": (96.8, 96.1, 91.1, 85.2),
    "BM25-uni": (92.1, 88.6, 84.6, 81.8),
    "BM25-bi": (98.0, 97.1, 95.9, 94.5),
    HYBRID: (98.2, 97.0, 94.4, 91.9),
    CROSS: (99.9, 99.9, 99.8, 99.6),
}
PASSAGES, QUERIES, TUNED_ON, TRAINED_ON = 3_000, 500, 200, 1_600
MOST_TOKENS = 512
RERANKED = 10
WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 4.0, 7.0)
SETTINGS: dict[str, Any] = {
    "optimiser": {
        "learning_rate": 2e-4,
        "projection_learning_rate": 1e-3,
        "batch_size": 32,
        "warmup_steps": 10,
        "precision": PRECISION,
    },
    "negatives": {"samplers": ["bm25", "in_batch"], "per_query": 1, "depth": 100, "shared": True},
    "fine_tuning": {"epochs": 1},
    "validation": {"queries": 50, "max_passages": 500},
    "collapse": {"stop": False},
}
# With two layers, nothing was learnt in 67 steps. With 400 tokens from the start, the loss began to
# fall after 65.
CROSS_START, CROSS_EPOCHS = "all-MiniLM-L6-v2", (2, 1)
CROSS_SETTINGS: dict[str, Any] = {
    "candidates": {"mode": "lexical", "depth": 5, "negatives": 2, "reranked": RERANKED},
    "optimiser": {
        "learning_rate": 1e-4,
        "batch_size": 16,
        "micro_batch_size": 4,
        "warmup_steps": 10,
        "precision": PRECISION,
    },
    "validation": {"queries": 50},
}


def main() -> None:
    raw, work = RESULTS / "long-documents.json", hybrid.WORK.with_name("long-documents")
    options = script_options(__doc__, data=Path, work=work, seeds=3, jobs=2, raw=raw)
    every = [*product((*SYSTEMS, CROSS), LENGTHS, range(options.seeds))]
    every += product(OTHER_SIZES, LENGTHS[:1], range(options.seeds))
    named = [each for each in every if each[0] != CROSS or each[1] == LENGTHS[0] or each[2] == 0]
    named.sort(key=itemgetter(2))  # all of a seed before the next one
    measure = partial(figures_of, options.data.resolve())
    found = measured(measure, named, options.work, options.jobs)

    def runs_of(name: str, length: int = LENGTHS[0]) -> list[Figures]:
        return [each for (*of, _), each in found.items() if of == [name, length]]

    rows: dict[str, list[Figures]] = {}
    for length in LENGTHS:
        for name in (*SYSTEMS, CROSS):
            runs = runs_of(name, length)
            for system in runs[0]["mrr"]:
                spread = spread_of(runs, system)
                if len(of_system := rows.setdefault(system, [])) < LENGTHS.index(length) + 1:
                    of_system.append(spread)
    shapes = SYSTEMS | OTHER_SIZES
    of_size = {name: spread_of(runs_of(name), name) for name in chain.from_iterable(BY_SIZE)}
    drawing = options.raw.with_suffix(".svg")
    figures = {
        "template": "experiments/long-documents.md.j2",
        "plot": drawing.name,
        "machine": describe_machine(
            ["torch", "transformers", "onnxruntime"], threads=f"1 for each of {options.jobs} runs"
        ),
        "lengths": LENGTHS,
        "rows": {name: rows[name] for name in PAPER},
        "bytes": {n: 4 * s["dim"] * s.get("vectors", 1) for n, s in shapes.items()},
        "by_size": [{name: of_size[name] for name in names} for names in BY_SIZE],
        "paper": PAPER,
        "seeds": options.seeds,
        "minutes": {name: runs_of(name)[-1]["seconds"] / 60 for name in (*SYSTEMS, CROSS)},
        "vectors": {
            name: {kind: fmean(each[kind] for each in runs_of(name)[1:]) for kind in OF_VECTORS}
            for name, shape in shapes.items()
            if "vectors" in shape and options.seeds > 1
        },
        "settings": SETTINGS,
        "of_cross": {
            "name": CROSS,
            "start": CROSS_START,
            "epochs": CROSS_EPOCHS,
            "reranked": RERANKED,
            **CROSS_SETTINGS,
        },
        "counts": {"passages": PASSAGES, "queries": QUERIES, "trained_on": TRAINED_ON},
        "source": SOURCE,
        "runs": {", ".join(map(str, run)): each for run, each in found.items()},
    }
    plot(figures, drawing)
    print(write(options.raw, figures))


def spread_of(runs: Sequence[Figures], system: str) -> dict[str, float]:
    """The mean of MRR@10 over the seeds, and half the difference between the best and the worst."""
    values = [each["mrr"][system] for each in runs]
    return {"mean": fmean(values), "half": (max(values) - min(values)) / 2}


def alike(vectors: NDArray[np.floating[Any]]) -> float:
    """The mean cosine of two vectors of one passage, of (passages, vectors, dim) of length 1."""
    count = vectors.shape[1]
    sums = (vectors.sum(axis=1) ** 2).sum(axis=1)
    return float((sums.mean() - count) / (count * (count - 1)))


def figures_of(data: Path, system: str, length: int, seed: int) -> Figures:
    """MRR@10 of a model and of BM25, how alike its vectors are, and the time of the training."""
    read = tokenizers.Tokenizer.from_file(f"{DEFAULT_QUERY_ENCODER / TOKENIZER_FILE}")
    read.enable_truncation(MOST_TOKENS)
    tokenizer = Tokenizer(read)
    made = partial(containing, data / SOURCE, tokenizer)
    judged, learnt = made(length)
    words = {
        "BM25-uni": bm25(judged, lambda text: pieces(tokenizer, text)),
        "BM25-bi": bm25(judged, lambda text: with_pairs(pieces(tokenizer, text))),
    }
    with TemporaryDirectory() as name:
        folder, began = Path(name), process_time()
        model: OnnxReranker | Pair
        if system == CROSS:
            lengths = dict.fromkeys((LENGTHS[0], length))
            model = trained_cross_encoder(folder, [made(each)[1] for each in lengths], seed)
        else:
            model = trained_pair(folder, learnt, system, length, seed)
        seconds = process_time() - began
    found: dict[str, Floats] = {}
    of_vectors = {}
    if isinstance(model, OnnxReranker):
        found[CROSS] = reranked(model.logit, words["BM25-bi"], judged)
    else:
        embedded = model.embedded(judged)
        vectors = embedded.documents.reshape(len(judged.documents), -1, embedded.queries.shape[1])
        scores = embedded.queries @ vectors.reshape(-1, vectors.shape[2]).T
        dense = scores.reshape(len(judged.queries), len(judged.documents), -1).max(axis=2)
        if vectors.shape[1] > 1:
            rows = [int(next(iter(judged.qrels[each.query_id]))) for each in judged.queries]
            of_own = np.einsum("qvd,qd->qv", vectors[rows], embedded.queries)
            of_vectors["alike"] = alike(vectors)
            of_vectors["first_is_best"] = float((of_own.argmax(axis=1) == 0).mean())
        found |= {system: dense, **words}
        if system in HYBRID:
            found[HYBRID] = tuned(dense, words["BM25-uni"], judged)
    mrr = {name: fmean(reciprocal_ranks(each, judged)[:QUERIES]) for name, each in found.items()}
    return {"seconds": seconds, "mrr": mrr, **of_vectors}


def trained_pair(folder: Path, learnt: Collection, system: str, length: int, seed: int) -> Pair:
    """Train the pair of encoders of a system, without distractors."""
    write_collection(folder, replace(learnt, documents=learnt.documents[:PASSAGES]))
    shape = (SYSTEMS | OTHER_SIZES)[system]
    tower = {"model": f"{DEFAULT_QUERY_ENCODER}", "max_tokens": length + 2}
    documents = tower | {"pooling": "cls"}
    if vectors := shape.get("vectors"):
        documents |= {"pooling": "first_tokens", "first_tokens": vectors}
    recipe = {
        "recipe": "contrastive",
        "seed": seed,
        "data": [{"corpus": f"{folder}", "qrels": "train"}],
        "query_encoder": tower | {"pooling": "cls"},
        "document_encoder": documents,
        "dual_encoder": {"dim": shape["dim"], "layer_norm": True},
        "passages": {"tokens": length, "truncate": True},
        **SETTINGS,
    }
    return Pair.trained(system, recipe)


def trained_cross_encoder(folder: Path, learnt: Sequence[Collection], seed: int) -> OnnxReranker:
    """Train a cross-encoder on one collection after the other, by what a search by words finds."""
    encoder, exported = folder / "encoder", folder / "reranker"
    # The one that ships reads 256 tokens.
    export_encoder(DEFAULT_QUERY_ENCODER, encoder, max_tokens=MOST_TOKENS, precisions=["int8"])
    model = CROSS_START
    for number, (collection, epochs) in enumerate(zip(learnt, CROSS_EPOCHS, strict=False)):
        corpus, index, run = (folder / f"{name}-{number}" for name in ("corpus", "index", "run"))
        write_collection(corpus, collection)
        swiftlet.build(
            corpus,
            index,
            encoder=encoder,
            passage_tokens=MOST_TOKENS,
            overlap_tokens=0,
            language=WORD_PIECES,
        )
        tables = {
            "recipe": CROSS_ENCODER,
            "seed": seed,
            "index": f"{index}",
            "data": [{"queries": f"{corpus}", "qrels": f"{corpus / 'qrels' / 'train.tsv'}"}],
            "cross_encoder": {"model": model, "max_tokens": MOST_TOKENS, "dropout": 0.0},
            "epochs": epochs,
            **CROSS_SETTINGS,
        }
        train_reranker(parse_tables(RerankerRecipe, tables, CROSS), run, progress=Stages())
        model = f"{run / MODEL}"
    export_reranker(Path(model), exported, precisions=["int8"])
    return OnnxReranker.load(exported)


def reranked(logit: Callable[[str, str], float], lexical: Floats, judged: Collection) -> Floats:
    """The scores of the best documents by BM25 for each tested query; others are below all."""
    scores: Floats = np.full_like(lexical, -np.inf)
    for number, query in enumerate(judged.queries[:QUERIES]):
        for row in np.argsort(-lexical[number], kind="stable")[:RERANKED]:
            scores[number, row] = logit(query.text, judged.documents[row].text)
    return scores


def containing(source: Path, tokenizer: Tokenizer, length: int) -> tuple[Collection, Collection]:
    """Passages of at most `length` tokens, and spans of 5 to 25 of their words as queries.

    After the passages, the documents have a distractor for each query: its passage, with one or two
    words of the span replaced by others.

    :return: What is judged, and what is learnt from: the same passages with other queries.
    """
    chance, of_training = random.Random(length), random.Random(f"training, {length}")
    splitter = PassageSplitter(tokenizer, length, 0)
    read = Collection.read(source, "test").documents
    texts = [passage.text for document in read for passage in splitter.split(document)]
    texts = chance.sample([text for text in texts if len(text.split()) >= 25], PASSAGES)
    every_word = sorted({word for text in texts for word in text.split()})
    passages = [Document(f"{number}", text) for number, text in enumerate(texts)]
    queries, distractors, qrels = [], [], {}
    for number in range(QUERIES + TUNED_ON + TRAINED_ON):
        row = chance.randrange(PASSAGES)
        words = texts[row].split()
        size = min(chance.randint(5, 25), len(words))
        first = chance.randint(0, len(words) - size)
        queries.append(Query(f"{number}", " ".join(words[first : first + size])))
        qrels[f"{number}"] = {f"{row}": 1}
        drawn = chance if number < QUERIES + TUNED_ON else of_training
        for place in drawn.sample(range(first, first + size), drawn.randint(1, 2)):
            words[place] = drawn.choice(every_word)
        distractors.append(Document(f"{row} without {number}", " ".join(words)))

    def with_queries(part: slice) -> Collection:
        documents = [*passages, *distractors[part]]
        return Collection(source.name, "test", documents, queries[part], qrels)

    judged = QUERIES + TUNED_ON
    return with_queries(slice(judged)), with_queries(slice(judged, None))


def write_collection(folder: Path, made: Collection) -> None:
    """Write a BEIR folder."""
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": d.document_id, "text": d.text} for d in made.documents]
    asked = [{"_id": query.query_id, "text": query.text} for query in made.queries]
    for name, rows in (("corpus", documents), ("queries", asked)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lines = [f"{q.query_id}\t{next(iter(made.qrels[q.query_id]))}\t1" for q in made.queries]
    (folder / "qrels" / "train.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    """The word pieces of a text, as numbers."""
    return [str(token) for token in tokenizer.encode(text)[1:-1]]


def with_pairs(words: Sequence[str]) -> list[str]:
    """Words, and pairs of words that follow each other."""
    return [*words, *(f"{a} {b}" for a, b in pairwise(words))]


def bm25(judged: Collection, words: Callable[[str], list[str]]) -> Floats:
    """The scores of all documents for all queries."""
    texts, queries = ([each.text for each in some] for some in (judged.documents, judged.queries))
    bags = Bags.of(texts, queries, words)
    scores: Floats = np.asarray((bags.queries @ bags.texts.T).todense())
    return scores


def tuned(dense: Floats, lexical: Floats, judged: Collection) -> Floats:
    """dense + λ · lexical, with the best λ on queries that are not tested (section 4.1)."""

    def on_others(weight: float) -> float:
        return fmean(reciprocal_ranks(dense + weight * unit * lexical, judged)[QUERIES:])

    unit = dense.std() / lexical.std()
    hybrid_scores: Floats = dense + max(WEIGHTS, key=on_others) * unit * lexical
    return hybrid_scores


def reciprocal_ranks(scores: Floats, judged: Collection) -> list[float]:
    """1 / rank of each query's passage among all, 0 after the tenth; ties count against it."""
    found = []
    for row, query in zip(scores, judged.queries, strict=True):
        own = row[int(next(iter(judged.qrels[query.query_id])))]
        rank = int((row >= own).sum())
        found.append(1 / rank if rank <= 10 else 0.0)
    return found


def plot(figures: Mapping[str, Any], drawing: Path) -> None:
    """Draw what was found beside what the paper has (figure 4, right)."""
    lengths = np.array(LENGTHS, dtype=float)
    here = {n: [100 * each["mean"] for each in row] for n, row in figures["rows"].items()}
    panels = [
        LinePanel(
            "MRR@10, %",
            [Curve(name, lengths, np.array(values)) for name, values in found.items()],
            x_label="tokens of a passage",
            title=title,
            markers=True,
            y_limits=(0, 102),
        )
        for title, found in (("here", here), ("002", PAPER))
    ]
    save_figure(plot_lines(panels), drawing)


if __name__ == "__main__":
    main()
