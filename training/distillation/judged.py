"""Queries with judgements on the documents of an index, and their relevant passages."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from training.distillation.overlap import IndexComparison
from training.distillation.relevance import Relevant
from training.distillation.settings import Judged
from training.distillation.texts import normalised


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
