"""The weight of the dense score in a hybrid search, tuned on judged queries."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from swiftlet.arguments import StrPath, number
from swiftlet.corpora.rows import QrelsSource, Queries
from swiftlet.encoders.encoder import Precision
from swiftlet.encoders.opening import EncoderSpec
from swiftlet.errors import EvaluationError, InvalidArgumentError
from swiftlet.evaluation.evaluate import JudgedBy
from swiftlet.evaluation.experiment import JudgedSet, run_queries
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.index.directory import locked_index
from swiftlet.manifest import change_details, read_manifest
from swiftlet.progress import Progress, Silence
from swiftlet.search.open_index import default_weight
from swiftlet.search.opening import open_searcher
from swiftlet.search.searcher import Searcher

METRIC = "nDCG@10"
FEWEST_QUERIES = 10
_DEPTH = 10
_STEPS = 25
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class TunedWeight:
    """The best weight for judged queries, and the mean nDCG@10 that shows it.

    `cross_validated` is the mean with weights chosen without the queries they are measured on (5
    folds); `before`, `dense` and `lexical` are the means with the weight in use, with 1 and with 0.
    """

    weight: float
    num_queries: int
    cross_validated: float
    before: float
    dense: float
    lexical: float

    @property
    def is_better(self) -> bool:
        """Whether weights that are tuned on some queries gain on other queries."""
        return self.cross_validated > self.before

    def details(self) -> dict[str, Any]:
        """The weight and its evidence for the manifest of the index."""
        evidence = asdict(self)
        return {"weight": evidence.pop("weight"), "weight_evidence": evidence}


def weights_to_try(in_use: float) -> list[float]:
    """0, 0.04 … 1 and the weight in use, ascending."""
    return sorted({in_use, *(step / _STEPS for step in range(_STEPS + 1))})


def tune_weight(
    searcher: Searcher, judgements: JudgedSet, progress: Progress | None = None
) -> TunedWeight:
    """Find the weight with the best mean nDCG@10 among `weights_to_try`.

    :raises EvaluationError: When there are fewer than ten judged queries.
    :raises InvalidArgumentError: When the index cannot be searched in the mode "hybrid".
    """
    searcher.mode_of("hybrid")
    count = len(judgements.queries)
    if count < FEWEST_QUERIES:
        raise EvaluationError(
            f"{count} judged queries are too few to tune a weight: {FEWEST_QUERIES} are needed"
        )
    weights = weights_to_try(searcher.weight)
    values = np.empty((len(weights), count))
    for row, weight in enumerate(weights):
        run = run_queries(
            SearcherRetriever(searcher, mode="hybrid", weight=weight),
            judgements.queries,
            top_k=_DEPTH,
            progress=progress,
        )
        by_query = evaluate_per_query(run, judgements.qrels, [METRIC])[METRIC]
        values[row] = [by_query[query.query_id] for query in judgements.queries]
    before = weights.index(searcher.weight)
    # Among equal weights the one in use, if it is one of them.
    order = [before, *(row for row in range(len(weights)) if row != before)]

    def best(some: "np.ndarray[Any, Any]") -> int:
        means = values[order][:, some].mean(axis=1).round(6)
        return order[int(means.argmax())]

    fold_of = np.arange(count) % _FOLDS
    held_out = np.concatenate(
        [values[best(fold_of != fold), fold_of == fold] for fold in range(_FOLDS)]
    )
    means = values.mean(axis=1).round(4).tolist()
    return TunedWeight(
        weight=weights[best(np.ones(count, dtype=bool))],
        num_queries=count,
        cross_validated=round(float(held_out.mean()), 4),
        before=means[before],
        dense=means[-1],
        lexical=means[0],
    )


def tune(
    index: StrPath,
    queries: Queries,
    qrels: QrelsSource,
    *,
    encoder: EncoderSpec | None = None,
    precision: Precision | None = None,
    allow_unknown: bool = False,
    progress: Progress | None = None,
) -> TunedWeight:
    """Find the weight of hybrid searches by judged queries, and write it into the index.

    The weight stays as it was unless tuning gains on queries that it was not tuned on. The index is
    locked meanwhile, as by a writer.

    :param index: An index directory that was built with a language.
    :param queries: As in `evaluate`, like `qrels` and the rest.
    :raises RetrievalError: When an argument, the queries, the qrels or the index is bad.
    :raises ArtefactError: When another process is writing the index.
    :raises StorageError: When the index is on storage that cannot be written.
    """
    progress, given = progress or Silence(), JudgedBy.of(queries, qrels)
    with (
        locked_index(index) as directory,
        open_searcher(directory, encoder=encoder, precision=precision) as searcher,
    ):
        judgements = given.matched(
            SearcherRetriever(searcher), progress, allow_unknown=allow_unknown
        )
        searches = len(weights_to_try(searcher.weight)) * len(judgements.queries)
        progress.begin("Searching", searches)
        tuned = tune_weight(searcher, judgements, progress)
        if tuned.is_better:
            change_details(directory, tuned.details())
    return tuned


def reset_weight(index: StrPath) -> float:
    """Undo `tune`: write the default weight into the index.

    :returns: That weight.
    :raises RetrievalError: When the index is bad; else as `tune`.
    """
    return _put_weight(index, None)


def set_weight(index: StrPath, weight: float) -> float:
    """Write a weight from 0 to 1 into the index, without evidence for it.

    :returns: The weight.
    :raises RetrievalError: When the weight or the index is bad; else as `tune`.
    """
    return _put_weight(index, number("weight", weight, least=0, most=1))


def _put_weight(index: StrPath, weight: float | None) -> float:
    with locked_index(index) as directory:
        details = read_manifest(directory).details
        if not details.get("language"):
            raise InvalidArgumentError(f"{index} was built without words, so it has no weight")
        chosen = default_weight(details) if weight is None else weight
        change_details(directory, {"weight": chosen, "weight_evidence": None})
    return chosen
