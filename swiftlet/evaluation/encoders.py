"""Compares two query encoders of one index by the same queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from time import perf_counter

import numpy as np

from swiftlet.arguments import StrPath, place_of, whole_number
from swiftlet.corpora.rows import QrelsSource, Queries, queries_of
from swiftlet.encoders.opening import EncoderSpec
from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.evaluate import JudgedBy
from swiftlet.evaluation.experiment import JudgedSet, run_queries
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.evaluation.significance import PairedTest, paired_t_test
from swiftlet.extras import extra
from swiftlet.progress import Progress, Silence
from swiftlet.search.opening import open_searcher
from swiftlet.search.searcher import Searcher
from swiftlet.types import Run

NDCG = "nDCG@10"
_DEEP, _FEWEST_COMMON, _TIMED = 100, 3, 200


@dataclass(frozen=True, slots=True)
class EncoderComparison:
    """The second encoder against the first, as means over the queries.

    `overlap` is the share of the first encoder's `top_k` best documents among the second's, and
    `correlation` Pearson's correlation of their scores, over the documents that both find among
    their 100 best; None if they have fewer than 3 in common in each query. `milliseconds` are the
    medians of the time in which each encodes a query. With judgements, `ndcg` has the test of the
    second's nDCG@10 against the first's, by mode of search.
    """

    num_queries: int
    top_k: int
    overlap: float
    correlation: float | None
    milliseconds: tuple[float, float]
    ndcg: dict[str, PairedTest]


def compare_encoders(
    index: StrPath,
    first: EncoderSpec,
    second: EncoderSpec,
    queries: Queries,
    qrels: QrelsSource | None = None,
    *,
    top_k: int = 10,
    allow_unknown: bool = False,
    progress: Progress | None = None,
) -> EncoderComparison:
    """Compare two query encoders of the embedding space of an index by dense searches.

    :param first: An encoder as `open_searcher` takes it; so is `second`.
    :param queries: A path, query_id -> text, or `Query` objects.
    :param qrels: A path, or query_id -> document_id -> grade; without them, nDCG is left out.
    :raises RetrievalError: When an argument, the queries, the qrels, the index or an encoder is
        bad, or an encoder is of another space.
    :raises MissingExtraError: When the extra `evaluation`, for qrels, is not installed.
    """
    progress, top_k = progress or Silence(), whole_number("top_k", top_k, least=1)
    if isinstance(place := place_of("index", index), Path) and place.is_file():
        raise InvalidArgumentError(
            f"{place} is a file, but an index is expected: swiftlet adopt makes one of vectors"
        )
    asked = queries_of(queries)
    if qrels is not None:
        with extra("evaluation"):  # a missing package shows before any search
            import scipy.stats  # noqa: F401
    with open_searcher(index, encoder=first) as one, open_searcher(index, encoder=second) as other:
        runs = list[Run]()
        judged = None
        if qrels is not None:
            judged = JudgedBy.of(asked, qrels).matched(
                SearcherRetriever(one), progress, allow_unknown=allow_unknown
            )
            asked = judged.queries
        for name, searcher in (("first", one), ("second", other)):
            progress.begin(f"Searching with the {name} encoder", len(asked))
            retriever = SearcherRetriever(searcher, mode="dense")
            depth = max(top_k, _DEEP)
            runs.append(run_queries(retriever, asked, top_k=depth, progress=progress))
        progress.begin("Comparing the encoders", None)
        texts = [query.text for query in asked[:_TIMED]]
        return EncoderComparison(
            len(asked),
            top_k,
            _overlap(runs[0], runs[1], top_k),
            _correlation(runs[0], runs[1]),
            (_milliseconds(one, texts), _milliseconds(other, texts)),
            {} if judged is None else _ndcg((one, other), judged),
        )


def _overlap(first: Run, second: Run, top_k: int) -> float:
    shares = []
    for query_id, scores in first.items():
        wanted = list(scores)[:top_k]
        found = set(list(second[query_id])[:top_k])
        shares.append(len(found.intersection(wanted)) / len(wanted))
    return fmean(shares)


def _correlation(first: Run, second: Run) -> float | None:
    found = []
    for query_id, scores in first.items():
        common = scores.keys() & second[query_id].keys()
        pairs = np.array([(scores[each], second[query_id][each]) for each in sorted(common)])
        if len(pairs) >= _FEWEST_COMMON and pairs.std(axis=0).all():
            found.append(float(np.corrcoef(pairs.T)[0, 1]))
    return fmean(found) if found else None


def _milliseconds(searcher: Searcher, texts: Sequence[str]) -> float:
    seconds = []
    for text in texts:
        began = perf_counter()
        searcher.encoder.encode([text])
        seconds.append(perf_counter() - began)
    return 1000 * median(seconds)


def _ndcg(searchers: Sequence[Searcher], judged: JudgedSet) -> dict[str, PairedTest]:
    tests: dict[str, PairedTest] = {}
    for mode in (each for each in searchers[0].modes if each != "lexical"):
        first, second = (
            evaluate_per_query(
                run_queries(SearcherRetriever(searcher, mode=mode), judged.queries, top_k=10),
                judged.qrels,
                [NDCG],
            )[NDCG]
            for searcher in searchers
        )
        tests[mode] = paired_t_test(second, first)
    return tests
