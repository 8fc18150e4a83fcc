"""Compares two query encoders of one index by the same queries."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from swiftlet.arguments import StrPath, place_of, whole_number
from swiftlet.corpora.rows import QrelsSource, Queries, queries_of
from swiftlet.corpora.vector_sources.arrays import NPY, mapped
from swiftlet.corpora.vector_sources.source import as_float32, bad_row, problem_of, wrong_width
from swiftlet.encoders.encoder import Encoder
from swiftlet.encoders.opening import EncoderSpec, open_encoder
from swiftlet.errors import CollectionError
from swiftlet.evaluation.evaluate import JudgedBy
from swiftlet.evaluation.experiment import JudgedSet, run_queries
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.evaluation.significance import PairedTest, paired_t_test
from swiftlet.extras import extra
from swiftlet.index.building.adopt import adopt
from swiftlet.progress import Progress, Silence
from swiftlet.search.opening import open_searcher
from swiftlet.search.searcher import Searcher
from swiftlet.types import Embeddings, Query, Run

NDCG = "nDCG@10"
_DEEP, _FEWEST_COMMON = 100, 3


@dataclass(frozen=True, slots=True)
class EncoderComparison:
    """The second encoder against the first, as means over the queries.

    `overlap` is the share of the first encoder's `top_k` best documents among the second's, and
    `correlation` Pearson's correlation of their scores, over the documents that both find among
    their 100 best; None if they have fewer than 3 in common in each query. `milliseconds` are the
    medians of the time in which each encodes a query; None for embeddings of a file. With
    judgements, `ndcg` has the test of the second's nDCG@10 against the first's, by mode of search.
    """

    num_queries: int
    top_k: int
    overlap: float
    correlation: float | None
    milliseconds: tuple[float | None, float | None]
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

    :param index: What `open_searcher` takes, or a file of vectors that `adopt` reads, such as one
        of FAISS: its documents have the ids of the file, or else the numbers of their rows.
    :param first: An encoder as `open_searcher` takes it, or a .npy file with the embeddings
        (n, dim) that a model has made of the n queries, in their order; so is `second`.
    :param queries: A path, query_id -> text, or `Query` objects.
    :param qrels: A path, or query_id -> document_id -> grade; without them, nDCG is left out.
    :raises RetrievalError: When an argument, the queries, the qrels, the index or an encoder is
        bad, or an encoder is of another space.
    :raises MissingExtraError: When the extra `evaluation`, for qrels, is not installed.
    """
    progress, top_k = progress or Silence(), whole_number("top_k", top_k, least=1)
    asked = queries_of(queries)
    if qrels is not None:
        with extra("evaluation"):  # a missing package shows before any search
            import scipy.stats  # noqa: F401
    made = [_embeddings_of(each, asked) for each in (first, second)]
    specs = [each if of is None else None for each, of in zip((first, second), made, strict=True)]
    with _opened(index, specs, progress) as (searcher, encoders):
        dim = searcher.index_manifest.dim
        for each, embeddings in zip((first, second), made, strict=True):
            width = len(next(iter(embeddings.values()))) if embeddings else dim
            if width != dim:
                raise wrong_width(f"{each}", 0, width, dim)
        judged = None
        if qrels is not None:
            judged = JudgedBy.of(asked, qrels).matched(
                SearcherRetriever(searcher), progress, allow_unknown=allow_unknown
            )
            asked = judged.queries
        found, runs = list[_Encoded](), list[Run]()
        for name, encoder, embeddings in zip(("first", "second"), encoders, made, strict=True):
            progress.begin(f"Encoding and searching with the {name} encoder", 2 * len(asked))
            if embeddings is not None:
                found.append(_Encoded(embeddings, None))
            elif encoder is not None:
                found.append(_Encoded.of(asked, encoder, progress))
            retriever = SearcherRetriever(searcher, found[-1].embeddings, mode="dense")
            depth = max(top_k, _DEEP)
            runs.append(run_queries(retriever, asked, top_k=depth, progress=progress))
        progress.begin("Comparing the encoders", None)
        return EncoderComparison(
            len(asked),
            top_k,
            _overlap(runs[0], runs[1], top_k),
            _correlation(runs[0], runs[1]),
            (found[0].milliseconds, found[1].milliseconds),
            {} if judged is None else _ndcg(searcher, found, runs, judged),
        )


def _embeddings_of(
    encoder: EncoderSpec, queries: Sequence[Query]
) -> Mapping[str, Embeddings] | None:
    """The embedding of each text from a file, or None for an encoder.

    :raises CollectionError: When it cannot be read, or has not an embedding for each query.
    """
    place = Path(encoder) if isinstance(encoder, str | PathLike) else Path()
    if place.suffix.lower() != NPY:
        return None
    found = mapped(place)
    if found.ndim != 2 or len(found) != len(queries) or found.dtype.kind not in "fiu":
        raise CollectionError(
            place,
            f"it has the shape {found.shape} of {found.dtype}, but an embedding for each of the "
            f"{len(queries):,} queries is expected, in their order",
        )
    rows = as_float32(found)
    for row, vector in enumerate(rows):
        if problem := problem_of(vector):
            raise bad_row(f"{place}", row, f"the embedding {problem}")
    return {query.text: row for query, row in zip(queries, rows, strict=True)}


@contextmanager
def _opened(
    index: StrPath, specs: Sequence[EncoderSpec | None], progress: Progress
) -> Iterator[tuple[Searcher, Sequence[Encoder | None]]]:
    """The open index, and both encoders. The vectors of a file are adopted for a while."""
    first, second = specs
    place = place_of("index", index)
    if isinstance(place, Path) and place.is_file():
        encoders = [None if each is None else open_encoder(each, "query") for each in specs]
        with TemporaryDirectory() as folder:
            adopt(place, adopted := Path(folder, "index"), progress=progress)
            with open_searcher(adopted) as searcher:
                yield searcher, encoders
    else:
        with open_searcher(index, encoder=first) as searcher:
            with open_searcher(index, encoder=second) as other:
                pair = searcher.encoder, other.encoder
            yield searcher, pair


@dataclass(frozen=True, slots=True)
class _Encoded:
    """The embedding of each text, and the median of the times in which one is encoded."""

    embeddings: Mapping[str, Embeddings]
    milliseconds: float | None

    @classmethod
    def of(cls, queries: Sequence[Query], encoder: Encoder, progress: Progress) -> "_Encoded":
        embeddings, seconds = dict[str, Embeddings](), []
        for query in queries:
            began = perf_counter()
            embeddings[query.text] = encoder.encode([query.text])[0]
            seconds.append(perf_counter() - began)
            progress.advance(1)
        return cls(embeddings, 1000 * median(seconds))


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


def _ndcg(
    searcher: Searcher, encoded: Sequence[_Encoded], dense: Sequence[Run], judged: JudgedSet
) -> dict[str, PairedTest]:
    runs = {"dense": dense}
    if "hybrid" in searcher.modes:
        runs["hybrid"] = [
            run_queries(
                SearcherRetriever(searcher, each.embeddings, mode="hybrid"),
                judged.queries,
                top_k=10,
            )
            for each in encoded
        ]
    tests: dict[str, PairedTest] = {}
    for mode, pair in runs.items():
        first, second = (evaluate_per_query(run, judged.qrels, [NDCG])[NDCG] for run in pair)
        tests[mode] = paired_t_test(second, first)
    return tests
