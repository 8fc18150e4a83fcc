"""Retrieval metrics, computed by ranx, and Holes.

A query counts if at least one document is judged for it. Its value is 0 if it has no results or no
grade above 0. Documents without a judgement are not relevant. These are the rules of trec_eval -c,
pytrec_eval and BEIR. Equal scores are ordered by document_id, as everywhere in Swiftlet (trec_eval
uses the reverse order).

A cutoff in tokens, as in recall@400 tokens, makes collections of longer and shorter documents
comparable (002, section 6): the best documents with at most this number of tokens together count,
and the best document in any case.

Holes@k is the share of documents without a judgement among the k best (002, section 7). If it is
high, the other metrics are unreliable. If a query has fewer than k results, they are the
denominator (1 - Judged@k of ir-measures).
"""

import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.evaluation import METRICS
from swiftlet.evaluation.errors import EvaluationError
from swiftlet.extras import extra
from swiftlet.types import Qrels, Run

DEFAULT_METRICS = ("ndcg@10", "mrr@10", "recall@100")

# Spellings, lower case -> (name in ranx, name in a table). ranx's "ndcg" has the linear gain of
# trec_eval and BEIR; its "ndcg_burges" has the gain 2^grade - 1.
_SPELLINGS = {
    "ndcg": ("ndcg", "nDCG"),
    "mrr": ("mrr", "MRR"),
    "rr": ("mrr", "MRR"),
    "recall": ("recall", "recall"),
    "r": ("recall", "recall"),
    "precision": ("precision", "P"),
    "p": ("precision", "P"),
    "map": ("map", "MAP"),
    "ap": ("map", "MAP"),
    "hit_rate": ("hit_rate", "hit rate"),
    "success": ("hit_rate", "hit rate"),
    "holes": ("holes", "Holes"),
    "hole": ("holes", "Holes"),
}
_HOLES = "holes"  # computed here, not by ranx
_UNDERSTOOD = f"{METRICS} are understood, also with k tokens, as in recall@400 tokens"
_NAME = re.compile(r"([a-z_][a-z0-9_]*)(?:@([1-9][0-9]{0,8})(_?tokens?)?)?")

Lengths = Callable[[str], int]
"""The number of tokens of the document with an id."""

_NOT_JUDGED = -1.0
_QUERIES_AT_ONCE = 1024

# ranx uses numba's "workqueue" threads, which abort the process if two threads enter them at once.
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric over the first `cutoff` results, or over all results without a cutoff.

    With `tokens`, it is over the best results with `tokens` tokens together. `name` is the name in
    ranx, or "holes".
    """

    name: str
    title: str
    cutoff: int | None
    tokens: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Metric":
        """The metric with the user's spelling `text`, such as nDCG@10, MRR@10, R@100, P@1 or MAP.

        :raises InvalidArgumentError: When there is no such metric.
        """
        spelling = text.strip().lower().replace(" ", "_") if isinstance(text, str) else ""
        match = _NAME.fullmatch(spelling)
        names = _SPELLINGS.get(match.group(1)) if match else None
        if match is None or names is None:
            raise InvalidArgumentError(f"{text!r} is not a metric: {_UNDERSTOOD}, with k from 1")
        cutoff = int(match.group(2)) if match.group(2) else None
        if names[0] == "precision" and (cutoff is None or match.group(3)):
            raise InvalidArgumentError(f"{text!r} needs a cutoff in documents, such as P@10")
        return cls(*names, None, cutoff) if match.group(3) else cls(*names, cutoff)

    def __str__(self) -> str:
        if self.tokens is not None:
            return f"{self.title}@{self.tokens} tokens"
        return self.title if self.cutoff is None else f"{self.title}@{self.cutoff}"


def evaluate(run: Run, qrels: Qrels, metrics: Sequence[str] = DEFAULT_METRICS) -> dict[str, float]:
    """Metric, as spelled in `metrics` -> its mean over the judged queries, in 0 to 1.

    :raises InvalidArgumentError: When a metric is unknown, or a score is not a number.
    :raises EvaluationError: When the qrels are empty, or share no query with the run.
    """
    per_query = evaluate_per_query(run, qrels, metrics)
    return {name: fmean(values.values()) for name, values in per_query.items()}


def evaluate_per_query(
    run: Run,
    qrels: Qrels,
    metrics: Sequence[str] = DEFAULT_METRICS,
    num_tokens: Lengths | None = None,
) -> dict[str, dict[str, float]]:
    """Metric, as spelled in `metrics` -> query_id, in the order of `qrels` -> value in 0 to 1.

    ranx compiles a metric on its first use on a machine: some ten seconds for the default three.
    The compiled code is cached beside ranx, or in the user's cache if that folder is read-only.
    Later processes need two seconds, for the import of ranx.

    :param num_tokens: The length of each document in `run`, for metrics with a cutoff in tokens.
    :raises InvalidArgumentError: When a metric is unknown, or a score is not a number; or when a
        cutoff is in tokens without `num_tokens`.
    :raises EvaluationError: When the qrels are empty, or share no query with the run.
    """
    parsed = {text: Metric.parse(text) for text in metrics}
    found: dict[str, dict[str, float]] = {}
    for budget in {None, *(each.tokens for each in parsed.values())}:
        searched = run if budget is None else _within(run, budget, num_tokens)
        of_budget = {text: each for text, each in parsed.items() if each.tokens == budget}
        found |= _evaluate(searched, qrels, of_budget)
    return {text: found[text] for text in metrics}


def _within(run: Run, budget: int, num_tokens: Lengths | None) -> Run:
    """The best documents of each query that have at most `budget` tokens together, at least one."""
    if num_tokens is None:
        raise InvalidArgumentError(
            "a cutoff in tokens needs the lengths of documents, which only an index has"
        )
    kept: Run = {}
    for query_id, scores in run.items():
        kept[query_id] = {}
        left = budget
        for document_id in ranked(scores):
            left -= num_tokens(document_id)
            if left < 0 and kept[query_id]:
                break
            kept[query_id][document_id] = scores[document_id]
    return kept


def _evaluate(run: Run, qrels: Qrels, parsed: Mapping[str, Metric]) -> dict[str, dict[str, float]]:
    query_ids = [query_id for query_id, grades in qrels.items() if grades]
    if not query_ids:
        raise EvaluationError("the qrels are empty: they judge no document for any query")
    if not any(query_id in run for query_id in query_ids):
        found = f"such as {shown(next(iter(run)))}" if run else "which is empty"
        raise EvaluationError(
            f"none of the {len(query_ids)} judged queries, such as {shown(query_ids[0])}, "
            f"is in the run, {found}"
        )
    for query_id in query_ids:
        if any(map(math.isnan, run.get(query_id, {}).values())):
            raise InvalidArgumentError(f"a score of the query {shown(query_id)} is not a number")
    ranx_names = sorted({_full_name(m) for m in parsed.values() if m.name != _HOLES})
    values: dict[str, list[float]] = {name: [] for name in ranx_names}
    for first in range(0, len(query_ids) if ranx_names else 0, _QUERIES_AT_ONCE):
        judged, found_rows = _matrices(run, qrels, query_ids[first : first + _QUERIES_AT_ONCE])
        for name, column in _compute(judged, found_rows, ranx_names).items():
            values[name] += column.tolist()
    for metric in parsed.values():
        if metric.name == _HOLES:
            values[_full_name(metric)] = [
                _holes(run.get(query_id, {}), qrels[query_id], metric.cutoff)
                for query_id in query_ids
            ]
    return {
        text: dict(zip(query_ids, values[_full_name(metric)], strict=True))
        for text, metric in parsed.items()
    }


def ranked(scores: Mapping[str, float]) -> list[str]:
    """The document ids of one query's results, best first; ties go by document_id."""
    return sorted(scores, key=lambda document_id: (-scores[document_id], document_id))


def _holes(scores: Mapping[str, float], grades: Mapping[str, int], cutoff: int | None) -> float:
    best = ranked(scores)[:cutoff]
    return sum(document_id not in grades for document_id in best) / len(best) if best else 0.0


def _full_name(metric: Metric) -> str:
    return metric.name if metric.cutoff is None else f"{metric.name}@{metric.cutoff}"


def _matrices(
    run: Run, qrels: Qrels, query_ids: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The input of ranx: per query, rows of (document number, grade) and (document number, score).

    Both are best first and padded with rows that no metric counts: (queries, rows, 2).

    ranx could build them from dictionaries. But it compiles that code for each length of ids, half
    a minute each, and leaves the order of ties undefined.
    """
    results = {query_id: run.get(query_id, {}) for query_id in query_ids}
    judged = np.zeros((len(query_ids), max(len(qrels[q]) for q in query_ids), 2))
    judged[:, :, 0] = _NOT_JUDGED
    found = np.zeros((len(query_ids), max(1, *map(len, results.values())), 2))
    found[:, :, 0] = _NOT_JUDGED
    for row, query_id in enumerate(query_ids):
        by_grade = sorted(qrels[query_id].items(), key=lambda item: -item[1])
        numbers = {document_id: number for number, (document_id, _) in enumerate(by_grade)}
        judged[row, : len(by_grade), 0] = range(len(by_grade))
        judged[row, : len(by_grade), 1] = [grade for _, grade in by_grade]
        scores = results[query_id]
        found[row, : len(scores), 0] = [numbers.get(d, _NOT_JUDGED) for d in ranked(scores)]
        found[row, : len(scores), 1] = sorted(scores.values(), reverse=True)
    return judged, found


def _compute(
    judged: NDArray[np.float64], found: NDArray[np.float64], ranx_names: list[str]
) -> dict[str, NDArray[np.float64]]:
    ranx = load_ranx()
    # ranx 0.3 fails for a list of one metric: it looks the values up under another name.
    names = ranx_names if len(ranx_names) > 1 else ranx_names * 2
    with _one_at_a_time:
        values: dict[str, NDArray[np.float64]] = ranx.evaluate(
            judged, found, names, return_mean=False
        )
    return values


def load_ranx() -> Any:
    """Import ranx; call it early to fail early.

    :raises MissingExtraError: When it is not installed.
    :raises EvaluationError: When it has no writable directory for compiled code.
    """
    with extra("evaluation"):
        try:
            import ranx
        except RuntimeError as error:  # numba finds no directory for compiled code
            raise EvaluationError(
                f"ranx cannot be loaded ({error}): set NUMBA_CACHE_DIR to a writable directory"
            ) from error
    return ranx
