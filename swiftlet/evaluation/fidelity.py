"""How many dimensions random projections of bags of words need to keep their ranking (002, §2).

A bag of words x ∈ ℝᵛ is compressed to Ax ∈ ℝᵏ. The entries of A are independent: ±1/√k
(Rademacher) or normal with the variance 1/k (Gaussian). The score of a text d for a query q,
⟨q, d⟩, becomes ⟨Aq, Ad⟩.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
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
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.documents.store import DOCUMENTS_FILE, DocumentStore
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
    """Texts (n, v) and queries (m, v) as sparse bags of words, whose inner product is the score.

    Queries that share no word with a text are left out.
    """

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
            from scipy.sparse import csr_matrix, diags
        bags = [words(text) for text in texts]
        numbers = {word: n for n, word in enumerate(dict.fromkeys(chain.from_iterable(bags)))}

        def counted(bags: Sequence[Sequence[str]]) -> Any:
            found = [
                (n, numbers[word]) for n, bag in enumerate(bags) for word in bag if word in numbers
            ]
            places = np.array(found, np.int64).reshape(-1, 2).T
            return csr_matrix((np.ones(len(found)), places), (len(bags), len(numbers)))

        counts, asked = counted(bags), counted([words(query) for query in queries])
        asked.data[:] = 1
        lengths = np.array([*map(len, bags)])
        if model == "boolean":
            counts.data[:] = 1
        else:
            frequencies = np.bincount(counts.indices, minlength=len(numbers))
            length = np.repeat(lengths / max(lengths.mean(), 1e-9), np.diff(counts.indptr))
            counts.data *= (_K1 + 1) / (counts.data + _K1 * (1 - _B + _B * length))
            rarity = np.log1p((len(texts) - frequencies + 0.5) / (frequencies + 0.5))
            asked = (asked @ diags(rarity)).tocsr()
        answered = (asked @ counts.T).getnnz(axis=1) > 0
        if not answered.any():
            raise InvalidArgumentError("no query shares a word with a text")
        return cls(counts, asked[answered], lengths)


@dataclass(frozen=True, slots=True)
class Fidelity:
    """What random projections keep of a ranking, by the number of `dimensions`.

    `errors` are the shares of pairs of the best text of a query and another one that are in the
    wrong order; `enough_for_pairs` dimensions keep all but a share `error` in order. `recalls` are
    the shares of queries whose best text is among the first `rank`; `enough_for_recall` keeps it
    there as often. Both are None if no number that was tried is enough. `pair_bound` and
    `recall_bound` are the dimensions that lemmas 1 and 2 guarantee for the median pair and the
    median query. `tightness` has, for groups of pairs by their margins ε, the term
    1 / (ε²/2 − ε³/3) of the median and the dimensions that sufficed (figure 2). `groups` have, for
    texts of similar length, the words of the longest one and the dimensions that suffice for the
    recall among them, if a number that was tried does (figure 3).
    """

    num_texts: int
    num_words: int
    num_queries: int
    asked: Compression
    dimensions: tuple[int, ...]
    errors: tuple[float, ...]
    recalls: tuple[float, ...]
    enough_for_pairs: int | None
    enough_for_recall: int | None
    pair_bound: int
    recall_bound: int
    tightness: tuple[tuple[float, int], ...]
    groups: tuple[tuple[int, int | None], ...]


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
    by_length = np.array_split(np.argsort(bags.lengths, kind="stable"), num_groups)
    parts = [np.sort(part) for part in by_length if len(part) > rank]
    whole, *groups = (_Ranking(bags, part) for part in (np.arange(num_texts), *parts))
    margins = whole.margins[whole.counted]
    at_rank = np.partition(np.where(whole.counted, whole.margins, np.inf), rank - 1)[:, rank - 1]
    if not np.isfinite(at_rank).any():
        raise InvalidArgumentError(
            f"no query ranks {rank} other texts below its best one: lower rank (--rank), or give "
            "more texts"
        )
    edges = np.quantile(margins, np.linspace(0, 1, 2 * _MARGIN_GROUPS + 1))
    pairs = np.maximum(np.histogram(margins, edges[::2])[0], 1)
    errors, errors_by_margin, recalls = [], [], []
    for projected in _projected(bags, asked, dimensions, advance):
        wrong = whole.wrong(projected)[whole.counted].astype(float)
        errors.append(float(wrong.mean()))
        errors_by_margin.append(np.histogram(margins, edges[::2], weights=wrong)[0] / pairs)
        recalls.append([each.recall(projected, rank) for each in (whole, *groups)])

    def enough(suffices: NDArray[np.bool]) -> int | None:
        """The first number of dimensions from which on all suffice."""
        too_few = np.flatnonzero(~suffices)
        return next(iter(dimensions[too_few[-1] + 1 if len(too_few) else 0 :]), None)

    of_margins = [enough(of_group) for of_group in (np.array(errors_by_margin) <= error).T]
    of_all, *of_groups = (enough(of_group) for of_group in (np.array(recalls) >= 1 - error).T)
    pair_margin, recall_margin = np.median(margins), np.median(at_rank[np.isfinite(at_rank)])
    return Fidelity(
        num_texts=num_texts,
        num_words=bags.texts.shape[1],
        num_queries=bags.queries.shape[0],
        asked=asked,
        dimensions=tuple(dimensions),
        errors=tuple(errors),
        recalls=tuple(of_whole for of_whole, *_ in recalls),
        enough_for_pairs=enough(np.array(errors) <= error),
        enough_for_recall=of_all,
        pair_bound=math.ceil(dimensions_for_pair(pair_margin, error)),
        recall_bound=math.ceil(dimensions_for_recall(recall_margin, error, num_texts - 1, rank)),
        tightness=tuple(
            (float(1 / _term(margin)), found)
            for margin, found in zip(edges[1::2], of_margins, strict=True)
            if found is not None
        ),
        groups=tuple(
            (int(bags.lengths[part].max()), found)
            for part, found in zip(parts, of_groups, strict=True)
        ),
    )


class _Ranking:
    """How the queries rank some of the texts (n,).

    `margins` (m, n) are the normalised margins between the best text of each query and each text
    (definition 2.1); those `counted` are above 0.
    """

    def __init__(self, bags: Bags, texts: NDArray[np.int64]) -> None:
        chosen = bags.texts[texts]
        scores = (bags.queries @ chosen.T).toarray()
        best = scores.argmax(axis=1)
        squares = np.asarray(chosen.multiply(chosen).sum(axis=1)).ravel()
        products = (chosen[best] @ chosen.T).toarray()
        distances = np.sqrt(np.maximum(squares[best][:, np.newaxis] + squares - 2 * products, 0))
        norms = np.sqrt(np.asarray(bags.queries.multiply(bags.queries).sum(axis=1)))
        self._texts, self._best = texts, best[:, np.newaxis]
        gaps = np.take_along_axis(scores, self._best, axis=1) - scores
        lengths = norms * distances
        self.margins = np.divide(gaps, lengths, out=np.zeros_like(gaps), where=lengths > 0)
        self.counted: NDArray[np.bool] = self.margins > 1e-9

    def wrong(self, projected: Floats) -> NDArray[np.bool]:
        """Whether each text has at least the projected score of the best text, (m, n)."""
        scores = projected[:, self._texts]
        wrong: NDArray[np.bool] = scores >= np.take_along_axis(scores, self._best, axis=1)
        return wrong & self.counted

    def recall(self, projected: Floats, rank: int) -> float:
        """The share of queries whose best text is among the first `rank`."""
        answered = self.counted.any(axis=1)
        found = (self.wrong(projected).sum(axis=1) < rank)[answered]
        return float(found.mean()) if len(found) else 1.0


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
        texts = [each.read(manifest.details) for each in passages]
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
