"""Retrieval metrics by the rules of trec_eval, and Holes.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import fmean

from swiftlet.errors import EvaluationError, InvalidArgumentError, shown
from swiftlet.evaluation import METRICS
from swiftlet.types import Qrels, Run

DEFAULT_METRICS = ("ndcg@10", "mrr@10", "recall@100")

# Spellings, lower case -> the name in a table.
_TITLES = {
    "ndcg": "nDCG",
    "mrr": "MRR",
    "rr": "MRR",
    "recall": "recall",
    "r": "recall",
    "precision": "P",
    "p": "P",
    "map": "MAP",
    "ap": "MAP",
    "hit_rate": "hit rate",
    "success": "hit rate",
    "holes": "Holes",
    "hole": "Holes",
}
_UNDERSTOOD = f"{METRICS} are understood, also with k tokens, as in recall@400 tokens"
_NAME = re.compile(r"([a-z_][a-z0-9_]*)(?:@([1-9][0-9]{0,8})(_?tokens?)?)?")

Lengths = Callable[[str], int]
"""The number of tokens of the document with an id."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric over the first `cutoff` results, or over all results without a cutoff.

    With `tokens`, it is over the best results with `tokens` tokens together.
    """

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
        title = _TITLES.get(match.group(1)) if match else None
        if match is None or title is None:
            raise InvalidArgumentError(f"{text!r} is not a metric: {_UNDERSTOOD}, with k from 1")
        cutoff = int(match.group(2)) if match.group(2) else None
        if title == "P" and (cutoff is None or match.group(3)):
            raise InvalidArgumentError(f"{text!r} needs a cutoff in documents, such as P@10")
        return cls(title, None, cutoff) if match.group(3) else cls(title, cutoff)

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
    relevant_from: int = 1,
) -> dict[str, dict[str, float]]:
    """Metric, as spelled in `metrics` -> query_id, in the order of `qrels` -> value in 0 to 1.

    :param num_tokens: The length of each document in `run`, for metrics with a cutoff in tokens.
    :param relevant_from: The lowest grade of a relevant document; nDCG takes all grades.
    :raises InvalidArgumentError: When a metric is unknown, or a score is not a number; or when a
        cutoff is in tokens without `num_tokens`.
    :raises EvaluationError: When the qrels are empty, share no query with the run, or have no grade
        of `relevant_from`.
    """
    parsed = {text: Metric.parse(text) for text in metrics}
    found: dict[str, dict[str, float]] = {}
    for budget in {None, *(each.tokens for each in parsed.values())}:
        searched = run if budget is None else _within(run, budget, num_tokens)
        of_budget = {text: each for text, each in parsed.items() if each.tokens == budget}
        found |= _evaluate(searched, qrels, of_budget, relevant_from)
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


def _evaluate(
    run: Run, qrels: Qrels, parsed: Mapping[str, Metric], relevant_from: int
) -> dict[str, dict[str, float]]:
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
    binary = qrels if relevant_from == 1 else _from_grade(relevant_from, qrels)
    best = {query_id: ranked(run.get(query_id, {})) for query_id in query_ids}
    return {
        text: {
            query_id: _value(
                metric, best[query_id], (qrels if metric.title == "nDCG" else binary)[query_id]
            )
            for query_id in query_ids
        }
        for text, metric in parsed.items()
    }


def _from_grade(least: int, qrels: Qrels) -> Qrels:
    """The qrels, with grades below `least` as 0."""
    found = {
        query_id: {each: grade if grade >= least else 0 for each, grade in grades.items()}
        for query_id, grades in qrels.items()
    }
    if not any(any(grades.values()) for grades in found.values()):
        most = max((grade for grades in qrels.values() for grade in grades.values()), default=0)
        raise EvaluationError(
            f"relevant_from is {least}, but the highest grade of the qrels is {most}"
        )
    return found


def ranked(scores: Mapping[str, float]) -> list[str]:
    """The document ids of one query's results, best first; ties go by document_id."""
    return sorted(scores, key=lambda document_id: (-scores[document_id], document_id))


def _value(metric: Metric, best: Sequence[str], grades: Mapping[str, int]) -> float:
    """A metric of one query, whose documents are the `best` first."""
    best = best[: metric.cutoff]
    if metric.title == "Holes":
        return sum(each not in grades for each in best) / len(best) if best else 0.0
    gains = [max(0, grades.get(each, 0)) for each in best]
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    ranks = [rank for rank, gain in enumerate(gains, start=1) if gain]
    if not ranks:
        return 0.0
    value = 1.0  # the hit rate
    match metric.title:
        case "nDCG":
            value = _discounted(gains) / _discounted(ideal[: metric.cutoff])
        case "MRR":
            value = 1 / ranks[0]
        case "recall":
            value = len(ranks) / len(ideal)
        case "P":
            value = len(ranks) / (metric.cutoff or 1)
        case "MAP":
            value = sum(n / rank for n, rank in enumerate(ranks, start=1)) / len(ideal)
    return value


def _discounted(gains: Sequence[int]) -> float:
    """The sum of grades, each divided by log2(rank + 1): the linear gain of trec_eval and BEIR."""
    return sum(gain / math.log2(rank) for rank, gain in zip(count(2), gains, strict=False))
