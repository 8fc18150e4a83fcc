"""Measures how many dimensions a corpus needs, by random projections of its bags of words."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from swiftlet.arguments import path_of, whole_number
from swiftlet.corpora.rows import Corpus, Queries, documents_of, queries_of
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.evaluation.fidelity import (
    DIMENSIONS,
    MODELS,
    PROJECTIONS,
    Bags,
    Fidelity,
    Model,
    Projection,
    measure,
)
from swiftlet.index.directory import DOCUMENTS_FILE
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.lexical.analysis import DEFAULT_LANGUAGE, analysis_of
from swiftlet.index.lexical.index import LEXICAL_FOLDER, PIECES_FILE
from swiftlet.manifest import FILE_NAME, read_manifest
from swiftlet.progress import Progress, Silence

_SHORTEST_SPAN, _LONGEST_SPAN = 5, 25


def fidelity(
    target: Corpus,
    queries: Queries | None = None,
    *,
    model: Model = "bm25",
    projection: Projection = "rademacher",
    language: str | None = None,
    error: float = 0.05,
    rank: int = 10,
    num_texts: int = 10_000,
    num_queries: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fidelity:
    """Compress the bags of words of texts to more and more dimensions (002, section 2).

    :param target: An index directory, whose passages are the texts, or a corpus, whose documents
        are.
    :param queries: As in `evaluate`. None takes spans of 5 to 25 words from the texts (002,
        section 5).
    :param model: The score of bags of words: "bm25", or "boolean", the number of common words.
    :param projection: "rademacher" or "gaussian".
    :param language: As in `build`; None takes the language of the index, else English.
    :param error: The share of errors that is accepted.
    :param rank: The best text of a query counts as found among the first `rank`.
    :param num_texts: The most texts, and with `num_queries` the most queries; chance chooses.
    :param progress: Shows the progress, such as `ProgressLine()`; None shows nothing.
    :raises RetrievalError: When an argument, the queries or the target is bad.
    :raises MissingExtraError: When the extra `evaluation` is not installed.
    """
    for name, value, known in (("model", model, MODELS), ("projection", projection, PROJECTIONS)):
        if value not in known:
            raise InvalidArgumentError(
                f"{name} is {shown(value)}, but one of {', '.join(known)} is expected"
            )
    num_texts = whole_number("num_texts", num_texts, least=2)
    num_queries = whole_number("num_queries", num_queries, least=1)
    progress = progress or Silence()
    random = np.random.default_rng(seed)
    progress.begin("Reading texts", None)
    texts, own_language, tokenizer = _texts(target, num_texts, random)
    if queries is None:
        asked = _spans(texts, num_queries, random)
    else:
        every = [query.text for query in queries_of(queries)]
        asked = [every[place] for place in _chosen(len(every), num_queries, random)]
    analysis = analysis_of(language or own_language or DEFAULT_LANGUAGE, tokenizer)
    bags = Bags.of(texts, asked, analysis.words, model)
    progress.begin("Projecting", DIMENSIONS[-1])
    return measure(
        bags,
        model=model,
        projection=projection,
        error=error,
        rank=rank,
        seed=seed,
        advance=progress.advance,
    )


def _texts(
    target: Corpus, most: int, random: np.random.Generator
) -> tuple[list[str], str | None, Tokenizer | None]:
    """At most `most` texts; their language and the tokenizer of word pieces, if known."""
    if isinstance(target, str | Path) and (Path(target) / FILE_NAME).is_file():
        directory = path_of("target", target)
        manifest = read_manifest(directory, "index")
        store = DocumentStore(directory / DOCUMENTS_FILE)
        try:
            passages = store.passages(_chosen(store.num_passages, most, random))
        finally:
            store.close()
        texts = [encoder_text(each.title, each.passage.text) for each in passages]
        pieces = directory / LEXICAL_FOLDER / PIECES_FILE
        tokenizer = Tokenizer.load(pieces) if pieces.is_file() else None
        return texts, manifest.details.get("language"), tokenizer
    documents = [encoder_text(each.title, each.text) for each in documents_of(target)]
    return [documents[place] for place in _chosen(len(documents), most, random)], None, None


def _spans(texts: Sequence[str], count: int, random: np.random.Generator) -> list[str]:
    spans = []
    for place in random.integers(len(texts), size=count):
        words = texts[place].split()
        length = int(random.integers(_SHORTEST_SPAN, _LONGEST_SPAN + 1))
        start = int(random.integers(max(1, len(words) - length + 1)))
        spans.append(" ".join(words[start : start + length]))
    return spans


def _chosen(count: int, most: int, random: np.random.Generator) -> list[int]:
    """At most `most` of the numbers below `count`, ascending."""
    if count <= most:
        return list(range(count))
    chosen: list[int] = np.sort(random.choice(count, most, replace=False)).tolist()
    return chosen
