"""The task of 002, section 5: which passage contains these words? And its rankings by words."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.pairs import write_qrels
from export.quality import Collection
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.evaluation.fidelity import Bags, Floats
from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.types import Document, Query

WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 4.0, 7.0)


def containing(
    source: Path, tokenizer: Tokenizer, length: int, counts: Mapping[str, int]
) -> tuple[Collection, Collection]:
    """Passages of at most `length` tokens, and spans of 5 to 25 of their words as queries.

    After the passages, the documents have a distractor for each query: its passage, with one or two
    words of the span replaced by others.

    :return: What is judged, and what is learnt from: the same passages with other queries.
    """
    chance, of_training = random.Random(length), random.Random(f"training, {length}")
    splitter = PassageSplitter(tokenizer, length, 0)
    read = Collection.read(source, "test").documents
    texts = [passage.text for document in read for passage in splitter.split(document)]
    texts = chance.sample([text for text in texts if len(text.split()) >= 25], counts["passages"])
    every_word = sorted({word for text in texts for word in text.split()})
    passages = [Document(f"{number}", text) for number, text in enumerate(texts)]
    queries, distractors, qrels = [], [], {}
    judged = counts["queries"] + counts["tuned_on"]
    for number in range(judged + counts["trained_on"]):
        row = chance.randrange(len(texts))
        words = texts[row].split()
        size = min(chance.randint(5, 25), len(words))
        first = chance.randint(0, len(words) - size)
        queries.append(Query(f"{number}", " ".join(words[first : first + size])))
        qrels[f"{number}"] = {f"{row}": 1}
        drawn = chance if number < judged else of_training
        for place in drawn.sample(range(first, first + size), drawn.randint(1, 2)):
            words[place] = drawn.choice(every_word)
        distractors.append(Document(f"{row} without {number}", " ".join(words)))

    def with_queries(part: slice) -> Collection:
        documents = [*passages, *distractors[part]]
        return Collection(source.name, "test", documents, queries[part], qrels)

    return with_queries(slice(judged)), with_queries(slice(judged, None))


def write_collection(folder: Path, made: Collection) -> None:
    """Write a BEIR folder."""
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": d.document_id, "text": d.text} for d in made.documents]
    asked = [{"_id": query.query_id, "text": query.text} for query in made.queries]
    for name, rows in (("corpus", documents), ("queries", asked)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    judged = {query.query_id: made.qrels[query.query_id] for query in made.queries}
    write_qrels(judged, folder / "qrels" / "train.tsv")


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    """The word pieces of a text, as numbers."""
    return [str(token) for token in tokenizer.encode(text)[1:-1]]


def with_pairs(words: Sequence[str]) -> list[str]:
    """Words, and pairs of words that follow each other."""
    return [*words, *(f"{a} {b}" for a, b in pairwise(words))]


def alike(vectors: NDArray[np.floating[Any]]) -> float:
    """The mean cosine of two vectors of one passage, of (passages, vectors, dim) of length 1."""
    count = vectors.shape[1]
    sums = (vectors.sum(axis=1) ** 2).sum(axis=1)
    return float((sums.mean() - count) / (count * (count - 1)))


def bm25(judged: Collection, words: Callable[[str], list[str]]) -> Floats:
    """The scores of all documents for all queries."""
    texts, queries = ([each.text for each in some] for some in (judged.documents, judged.queries))
    bags = Bags.of(texts, queries, words)
    scores: Floats = np.asarray((bags.queries @ bags.texts.T).todense())
    return scores


def reranked(
    logit: Callable[[str, str], float], lexical: Floats, judged: Collection, tested: int, best: int
) -> Floats:
    """The scores of the `best` documents by BM25 for each tested query; others are below all."""
    scores: Floats = np.full_like(lexical, -np.inf)
    for number, query in enumerate(judged.queries[:tested]):
        for row in np.argsort(-lexical[number], kind="stable")[:best]:
            scores[number, row] = logit(query.text, judged.documents[row].text)
    return scores


def tuned(dense: Floats, lexical: Floats, judged: Collection, tested: int) -> Floats:
    """dense + λ · lexical, with the best λ on queries that are not tested (section 4.1)."""

    def on_others(weight: float) -> float:
        return fmean(reciprocal_ranks(dense + weight * unit * lexical, judged)[tested:])

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
