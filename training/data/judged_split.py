"""Judged queries in two parts, for training and for a test."""

from collections import defaultdict

from swiftlet.evaluation.experiment import JudgedSet
from swiftlet.types import Query
from training.data.query_groups import digest, normalised_query
from training.errors import TrainingDataError

HELD_OUT = 0.2
FEWEST_JUDGED = 50


def split_by_documents(judgements: JudgedSet, advice: str = "") -> tuple[list[Query], list[Query]]:
    """The judged queries in two parts: for training, and at most a fifth for the test.

    Queries of the two have no relevant document in common, nor the same words: otherwise the test
    would measure what was learnt by heart. The parts depend on the texts alone.

    :param advice: The end of the error's sentence.
    :raises TrainingDataError: When there are fewer than 50 queries, or when common documents leave
        less than half of the test.
    """
    groups = _connected(judgements)
    count = sum(map(len, groups))
    training: list[Query] = []
    test: list[Query] = []
    for group in sorted(groups, key=lambda group: min(digest(each.text) for each in group)):
        fits = len(test) + len(group) <= HELD_OUT * count
        (test if fits else training).extend(group)
    if count < FEWEST_JUDGED or len(test) < HELD_OUT * count / 2:
        raise TrainingDataError(
            "the judged queries cannot be divided for training and test: at least "
            f"{FEWEST_JUDGED} queries with different words, about different documents, are needed, "
            f"but the number of queries is {count} and counts as {len(groups)}: those with the "
            f"same words, or a relevant document in common, belong together{advice}"
        )
    return training, test


def _connected(judgements: JudgedSet) -> list[list[Query]]:
    """Groups of queries that have a relevant document in common, or the same words."""
    leaders: dict[str, str] = {}

    def leader(node: str) -> str:
        while (above := leaders.setdefault(node, node)) != node:
            leaders[node] = leaders[above]
            node = above
        return node

    queries = [q for q in judgements.queries if max(judgements.qrels[q.query_id].values()) > 0]
    for query in queries:
        words = f"query {normalised_query(query.text)}"
        for document_id, grade in judgements.qrels[query.query_id].items():
            if grade > 0:
                leaders[leader(words)] = leader(f"document {document_id}")
    groups = defaultdict(list)
    for query in queries:
        groups[leader(f"query {normalised_query(query.text)}")].append(query)
    return list(groups.values())
