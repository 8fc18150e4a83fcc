"""How many dimensions random projections of bags of words need to keep their ranking (002, §2).

A bag of words x ∈ ℝᵛ is compressed to Ax ∈ ℝᵏ. The entries of A are independent: ±1/√k
(Rademacher) or normal with the variance 1/k (Gaussian). The score of a text d for a query q,
⟨q, d⟩, becomes ⟨Aq, Ad⟩.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.arguments import path_of
from swiftlet.corpora.rows import Corpus, Queries, documents_of, queries_of
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.compression import Compression, Model
from swiftlet.extras import extra
from swiftlet.index.directory import DOCUMENTS_FILE
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.lexical import DEFAULT_LANGUAGE
from swiftlet.index.lexical.analysis import analysis_of
from swiftlet.index.lexical.index import LEXICAL_FOLDER, PIECES_FILE
from swiftlet.manifest import FILE_NAME, read_manifest
from swiftlet.progress import Progress, Silence

Floats = NDArray[np.float64]
Words = Callable[[str], Sequence[str]]
"""The words of a text, with repetitions."""

DIMENSIONS = tuple(round(2 ** (exponent / 2)) for exponent in range(10, 27))
"""The numbers of dimensions that are tried: from 32 to 8,192, each √2 times the one before."""

_K1, _B = 1.2, 0.75
_COLUMNS = 256
_MARGIN_GROUPS = 12
_SHORTEST_SPAN, _LONGEST_SPAN = 5, 25


def dimensions_for_pair(margin: float, error: float) -> float:
    """Dimensions that keep the order of two texts with probability 1 − `error` (eq. 2).

    :param margin: The normalised margin ε of the pair, in (0, 1].
    """
    return float(2 / _term(margin) * math.log(4 / error))


def dimensions_for_recall(margin: float, error: float, num_others: int, rank: int) -> float:
    """Dimensions that keep the best text among the first `rank` with probability 1 − `error`.

    This is eq. 3, from lemma 2.

    :param margin: The `rank`-th smallest normalised margin over the `num_others` other texts.
    """
    return float(2 / _term(margin) * math.log(4 * (num_others - rank + 1) / error))


def _term(margin: Any) -> Any:
    return margin**2 / 2 - margin**3 / 3


@dataclass(frozen=True, slots=True)
class Bags:
    """Texts (n, v) and queries (m, v) as sparse bags of words, whose inner product is the score."""

    texts: Any
    queries: Any
    lengths: NDArray[np.int64]
    """The words of each text (n,)."""

    @classmethod
    def of(
        cls, texts: Sequence[str], queries: Sequence[str], words: Words, model: Model = "bm25"
    ) -> "Bags":
        """BM25 with k1 = 1.2 and b = 0.75, or the number of common words ("boolean", 2.1.2).

        :raises InvalidArgumentError: When no query shares a word with a text.
        """
        with extra("evaluation"):
            from scipy.sparse import diags
        numbers: dict[str, int] = {}
        counts = _counts([words(text) for text in texts], numbers, grows=True)
        asked = _counts([words(query) for query in queries], numbers, grows=False)
        asked.data[:] = 1
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        frequencies = np.bincount(counts.indices, minlength=counts.shape[1])
        if model == "boolean":
            counts.data[:] = 1
        else:
            length = lengths / max(lengths.mean(), 1e-9)
            rows = np.repeat(np.arange(len(texts)), np.diff(counts.indptr))
            counts.data *= (_K1 + 1) / (counts.data + _K1 * (1 - _B + _B * length[rows]))
            rarity = np.log1p((len(texts) - frequencies + 0.5) / (frequencies + 0.5))
            asked = (asked @ diags(rarity)).tocsr()
        if not (asked @ counts.T).nnz:
            raise InvalidArgumentError("no query shares a word with a text")
        return cls(counts, asked, lengths.astype(np.int64))


def _counts(texts: Sequence[Sequence[str]], numbers: dict[str, int], *, grows: bool) -> Any:
    from scipy.sparse import csr_matrix

    rows, columns = [], []
    for row, words in enumerate(texts):
        for word in words:
            number = numbers.setdefault(word, len(numbers)) if grows else numbers.get(word)
            if number is not None:
                rows.append(row)
                columns.append(number)
    shape = (len(texts), len(numbers))
    return csr_matrix((np.ones(len(rows)), (rows, columns)), shape, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """Texts of up to `most_words` words, and longer than the group before (figure 3).

    `margins` are the medians over the queries of the 10th, 100th and 1,000th smallest normalised
    margin; `dimensions` suffice for the recall, None if no number that was tried does.
    """

    most_words: int
    num_texts: int
    margins: tuple[float | None, ...]
    dimensions: int | None


@dataclass(frozen=True, slots=True)
class Fidelity:
    """What random projections keep of a ranking, by the number of `dimensions`.

    `errors` are the shares of pairs of the best text of a query and another one that are in the
    wrong order. `recalls` are the shares of queries whose best text is among the first `rank`.
    `pair_bound` and `recall_bound` are the dimensions that lemmas 1 and 2 guarantee for the median
    pair and the median query. `tightness` has, for groups of pairs by their margins ε, the term
    1 / (ε²/2 − ε³/3) of the median and the dimensions that sufficed (figure 2).
    """

    num_texts: int
    num_words: int
    num_queries: int
    asked: Compression
    dimensions: tuple[int, ...]
    errors: tuple[float, ...]
    recalls: tuple[float, ...]
    pair_bound: int
    recall_bound: int
    tightness: tuple[tuple[float, int], ...]
    groups: tuple[LengthGroup, ...]

    @property
    def enough_for_pairs(self) -> int | None:
        """The fewest dimensions tried that keep all but a share `error` of the pairs in order."""
        return _first(self.dimensions, [each <= self.asked.error for each in self.errors])

    @property
    def enough_for_recall(self) -> int | None:
        """The fewest dimensions tried that keep the best text among the first `rank` as often."""
        return _first(self.dimensions, [each >= 1 - self.asked.error for each in self.recalls])


def measure(
    bags: Bags,
    asked: Compression,
    *,
    dimensions: Sequence[int] = DIMENSIONS,
    num_groups: int = 4,
    advance: Callable[[int], object] = lambda _: None,
) -> Fidelity:
    """Project texts and queries, and compare the rankings with the rankings of the bags of words.

    :param num_groups: Texts are divided by their length into this number of equal groups.
    :param advance: Called with the number of dimensions that are done since the last call.
    :raises InvalidArgumentError: When there are too few texts.
    """
    error, rank, num_texts = asked.error, asked.rank, bags.texts.shape[0]
    if rank >= num_texts:
        raise InvalidArgumentError(
            f"rank is {rank}, but must be from 1 to {num_texts - 1}, since there are {num_texts} "
            "texts: lower it (--rank), or give more texts"
        )
    scores = np.asarray((bags.queries @ bags.texts.T).todense())
    bags_of_words = Bags(bags.texts, bags.queries[scores.any(axis=1)], bags.lengths)
    scores = scores[scores.any(axis=1)]
    everything = _Selection.of(bags_of_words, scores, np.arange(num_texts))
    margins_at_rank = _median(everything.smallest_margins(rank))
    if margins_at_rank is None:
        raise InvalidArgumentError(
            f"no query ranks {rank} other texts below its best one: lower rank (--rank), or give "
            "more texts"
        )
    order = np.argsort(bags.lengths, kind="stable")
    parts = [part for part in np.array_split(order, num_groups) if len(part) > rank]
    groups = [_Selection.of(bags_of_words, scores, np.sort(part)) for part in parts]
    terms, edges = everything.margin_groups()
    errors, recalls, kept = [], [], []
    of_groups: list[list[float]] = [[] for _ in groups]
    for projected in _projected(bags_of_words, asked, dimensions, advance):
        wrong = everything.wrong(projected)
        errors.append(float(wrong[everything.counted].mean()))
        recalls.append(everything.recall(projected, rank))
        kept.append(everything.error_by_margin(wrong, edges))
        for found, group in zip(of_groups, groups, strict=True):
            found.append(group.recall(projected, rank))
    tightness = [
        (float(term), enough)
        for term, of_term in zip(terms, np.array(kept).T, strict=True)
        if (enough := _first(dimensions, [each <= error for each in of_term])) is not None
    ]
    pair_margin = float(np.median(everything.margins[everything.counted]))
    return Fidelity(
        num_texts=num_texts,
        num_words=bags.texts.shape[1],
        num_queries=len(scores),
        asked=asked,
        dimensions=tuple(dimensions),
        errors=tuple(errors),
        recalls=tuple(recalls),
        pair_bound=math.ceil(dimensions_for_pair(pair_margin, error)),
        recall_bound=math.ceil(dimensions_for_recall(margins_at_rank, error, num_texts - 1, rank)),
        tightness=tuple(tightness),
        groups=tuple(
            LengthGroup(
                most_words=int(bags.lengths[part].max()),
                num_texts=len(part),
                margins=tuple(_median(group.smallest_margins(place)) for place in (10, 100, 1000)),
                dimensions=_first(dimensions, [each >= 1 - error for each in found]),
            )
            for part, group, found in zip(parts, groups, of_groups, strict=True)
        ),
    )


@dataclass(frozen=True, slots=True)
class _Selection:
    """Some of the texts, and how the queries rank them.

    `best` (m,) is the best text of each query among `texts` (n,). `margins` (m, n) are the
    normalised margins between it and each text (definition 2.1); those `counted` are above 0.
    """

    texts: NDArray[np.int64]
    best: NDArray[np.int64]
    margins: Floats
    counted: NDArray[np.bool]

    @classmethod
    def of(cls, bags: Bags, scores: Floats, texts: NDArray[np.int64]) -> "_Selection":
        chosen, scores = bags.texts[texts], scores[:, texts]
        best = scores.argmax(axis=1)
        best_scores = np.take_along_axis(scores, best[:, np.newaxis], axis=1)
        squares = np.asarray(chosen.multiply(chosen).sum(axis=1)).ravel()
        products = np.asarray((chosen[best] @ chosen.T).todense())
        distances = np.sqrt(np.maximum(squares[best][:, np.newaxis] + squares - 2 * products, 0))
        norms = np.sqrt(np.asarray(bags.queries.multiply(bags.queries).sum(axis=1)))
        lengths = norms * distances
        margins = np.divide(
            best_scores - scores, lengths, out=np.zeros_like(scores), where=lengths > 0
        )
        return cls(texts, best, margins, margins > 1e-9)

    def wrong(self, projected: Floats) -> NDArray[np.bool]:
        """Whether each text has at least the projected score of the best text, (m, n)."""
        scores = projected[:, self.texts]
        wrong: NDArray[np.bool] = scores >= np.take_along_axis(
            scores, self.best[:, np.newaxis], axis=1
        )
        return wrong & self.counted

    def recall(self, projected: Floats, rank: int) -> float:
        """The share of queries whose best text is among the first `rank`."""
        answered = self.counted.any(axis=1)
        found = (self.wrong(projected).sum(axis=1) < rank)[answered]
        return float(found.mean()) if len(found) else 1.0

    def smallest_margins(self, place: int) -> Floats:
        """The smallest margin of each query, but `place` − 1, (m,); NaN if there are fewer."""
        if self.margins.shape[1] < place:
            return np.full(len(self.margins), np.nan)
        margins = np.where(self.counted, self.margins, np.inf)
        found: Floats = np.partition(margins, place - 1, axis=1)[:, place - 1]
        return np.where(np.isfinite(found), found, np.nan)

    def margin_groups(self) -> tuple[Floats, Floats]:
        """Terms 1 / (ε²/2 − ε³/3) of pairs in groups of equal size, and the edges of their ε."""
        margins = self.margins[self.counted]
        edges = np.quantile(margins, np.linspace(0, 1, 2 * _MARGIN_GROUPS + 1))
        return 1 / _term(edges[1::2]), edges[::2]

    def error_by_margin(self, wrong: NDArray[np.bool], edges: Floats) -> Floats:
        """The share of pairs in the wrong order in each group of margins."""
        margins = self.margins[self.counted]
        errors = np.histogram(margins, edges, weights=wrong[self.counted].astype(float))[0]
        shares: Floats = errors / np.maximum(np.histogram(margins, edges)[0], 1)
        return shares


def _projected(
    bags: Bags,
    asked: Compression,
    dimensions: Sequence[int],
    advance: Callable[[int], object],
) -> Iterator[Floats]:
    """The projected scores (m, n) by each number of dimensions, but for a factor."""
    random = np.random.default_rng(asked.seed)
    num_words = bags.texts.shape[1]
    texts, queries = bags.texts.astype(np.float32), bags.queries.astype(np.float32)
    scores = np.zeros((queries.shape[0], texts.shape[0]))
    done = 0
    for wanted in dimensions:
        while done < wanted:
            columns = min(_COLUMNS, wanted - done)
            if asked.projection == "rademacher":
                signs = random.integers(0, 2, (num_words, columns), np.int8)
                matrix = (2 * signs - 1).astype(np.float32)
            else:
                matrix = random.standard_normal((num_words, columns), np.float32)
            scores += (queries @ matrix) @ (texts @ matrix).T
            done += columns
            advance(columns)
        yield scores


def _first(dimensions: Sequence[int], enough: Sequence[bool]) -> int | None:
    """The first number of dimensions from which on all are enough."""
    first = None
    for number, suffices in zip(dimensions, enough, strict=True):
        if not suffices:
            first = None
        elif first is None:
            first = number
    return first


def _median(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None


def fidelity(
    target: Corpus,
    queries: Queries | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> Fidelity:
    """Compress the bags of words of texts to more and more dimensions (002, section 2).

    :param target: An index directory, whose passages are the texts, or a corpus, whose documents
        are.
    :param queries: As in `evaluate`. None takes spans of 5 to 25 words from the texts (002,
        section 5).
    :param progress: Shows the progress, such as `ProgressLine()`; None shows nothing.
    :param settings: The fields of `Compression`; docs/evaluation.md describes each.
    :raises RetrievalError: When an argument, the queries or the target is bad.
    :raises MissingExtraError: When the extra `evaluation` is not installed.
    """
    compression, progress = Compression(**settings), progress or Silence()
    random = np.random.default_rng(compression.seed)
    progress.begin("Reading texts", None)
    texts, own_language, tokenizer = _texts(target, compression.num_texts, random)
    if queries is None:
        asked = _spans(texts, compression.num_queries, random)
    else:
        every = [query.text for query in queries_of(queries)]
        asked = [every[place] for place in _chosen(len(every), compression.num_queries, random)]
    language = compression.language or own_language or DEFAULT_LANGUAGE
    bags = Bags.of(texts, asked, analysis_of(language, tokenizer).words, compression.model)
    progress.begin("Projecting", DIMENSIONS[-1])
    return measure(bags, compression, advance=progress.advance)


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
