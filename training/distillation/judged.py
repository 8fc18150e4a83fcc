"""Queries with judgements on the documents of an index: relevant passages, and two parts."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping

from swiftlet.evaluation.experiment import Judgements
from swiftlet.retrieval.types import Query
from training.distillation.overlap import IndexComparison
from training.distillation.relevance import Relevant
from training.distillation.settings import Judged
from training.distillation.texts import normalised
from training.errors import TrainingDataError

HELD_OUT = 0.2
FEWEST_JUDGED = 50


def relevant_passages(
    sources: Iterable[Judged], comparison: IndexComparison
) -> Mapping[str, Relevant]:
    """The relevant passages of each query of `sources`, by its text as a `TextSource` has it.

    A query that occurs again counts once, with the judgements of all and the highest weight.

    :raises CollectionError: When a file is bad, or names an unknown query or document.
    """
    documents: dict[str, set[str]] = defaultdict(set)
    weights: dict[str, float] = {}
    for source in sources:
        judgements = comparison.judgements(source)
        for query in judgements.queries:
            text = normalised(query.text)
            grades = judgements.qrels[query.query_id]
            relevant = {each for each, grade in grades.items() if grade > 0}
            if text and relevant:
                documents[text] |= relevant
                weights[text] = max(weights.get(text, 0.0), source.weight)
    return {
        text: Relevant(comparison.rows_of(ids), weights[text]) for text, ids in documents.items()
    }


def split_by_documents(judgements: Judgements) -> tuple[list[Query], list[Query]]:
    """The judged queries in two parts: for training, and at most a fifth for the test.

    Queries of the two have no relevant document in common, nor the same words: otherwise the test
    would measure what was learnt by heart. The parts depend on the texts alone.

    :raises TrainingDataError: When there are fewer than 50 queries, or so many have a document in
        common that half of the test would be missing.
    """
    groups = _connected(judgements)
    count = sum(map(len, groups))
    training: list[Query] = []
    test: list[Query] = []
    for group in sorted(groups, key=lambda group: min(_digest(each.text) for each in group)):
        fits = len(test) + len(group) <= HELD_OUT * count
        (test if fits else training).extend(group)
    if count < FEWEST_JUDGED or len(test) < HELD_OUT * count / 2:
        raise TrainingDataError(
            "the judged queries cannot be divided for training and test: at least "
            f"{FEWEST_JUDGED} queries about different documents are needed, but there are {count} "
            f"about {len(groups)} different documents or groups of documents; without qrels, the "
            "sentences of the index are enough"
        )
    return training, test


def _connected(judgements: Judgements) -> list[list[Query]]:
    """Groups of queries that have a relevant document in common, or the same words."""
    leaders: dict[str, str] = {}

    def leader(node: str) -> str:
        while (above := leaders.setdefault(node, node)) != node:
            leaders[node] = leaders[above]
            node = above
        return node

    queries = [q for q in judgements.queries if max(judgements.qrels[q.query_id].values()) > 0]
    for query in queries:
        words = f"query {normalised(query.text).casefold()}"
        for document_id, grade in judgements.qrels[query.query_id].items():
            if grade > 0:
                leaders[leader(words)] = leader(f"document {document_id}")
    groups = defaultdict(list)
    for query in queries:
        groups[leader(f"query {normalised(query.text).casefold()}")].append(query)
    return list(groups.values())


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
