"""Queries with the documents that a search finds for them, relevant or not."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from swiftlet.evaluation.evaluate import JudgedBy
from swiftlet.evaluation.experiment import JudgedSet
from swiftlet.evaluation.retrievers import Retriever, SearcherRetriever
from swiftlet.index.documents.passages import encoder_text
from swiftlet.search.opening import open_searcher
from swiftlet.types import Query
from training.data.judged_split import split_by_documents
from training.errors import TrainingDataError
from training.loop.log import TrainingProgress
from training.reranking.settings import JudgedTable, RerankerRecipe


@dataclass(frozen=True, slots=True)
class Group:
    """A query, its best documents in their order, and the winning passage and score of each."""

    query: Query
    documents: tuple[str, ...]
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    grades: Mapping[str, int]

    @property
    def relevant(self) -> list[int]:
        """The places of relevant documents."""
        return [n for n, name in enumerate(self.documents) if self.grades.get(name, 0) > 0]

    @property
    def others(self) -> list[int]:
        """The places of documents that are not known to be relevant."""
        return [n for n, name in enumerate(self.documents) if self.grades.get(name, 0) <= 0]


def find_groups(
    recipe: RerankerRecipe, progress: TrainingProgress
) -> tuple[list[Group], list[Group]]:
    """The queries to train on, and those held out; no document is relevant in both.

    A query for training is left out if all of its best documents are relevant, or none of them.

    :raises RetrievalError: When the index, a file or the settings are bad.
    :raises TrainingDataError: When too few queries are left.
    """
    settings, texts = recipe.candidates, dict[str, str]()
    with closing(open_searcher(recipe.index)) as searcher:
        retriever = SearcherRetriever(searcher)
        judgements = _merged([_read(table, retriever, progress) for table in recipe.data])
        training, held_out = split_by_documents(judgements)
        held_out = held_out[: recipe.validation.queries]

        def group(query: Query, depth: int) -> Group:
            hits = searcher.search(query.text, depth, mode=settings.mode).hits
            for hit in hits:
                text = encoder_text(hit.title, hit.passage.text)
                texts.setdefault(hit.passage.passage_id, text)
            progress.advance(1)
            return Group(
                query,
                tuple(hit.document_id for hit in hits),
                tuple(texts[hit.passage.passage_id] for hit in hits),
                tuple(hit.score for hit in hits),
                judgements.qrels[query.query_id],
            )

        progress.begin("Candidates", len(training) + len(held_out))
        groups = [group(query, settings.depth) for query in training]
        validation = [group(query, settings.reranked) for query in held_out]
    useful = [each for each in groups if each.relevant and each.others]
    if missed := len(groups) - len(useful):
        progress.note(
            f"{missed:,} of {len(groups):,} queries have no relevant document among their "
            f"{settings.depth} best, or no other one: they are left out"
        )
    if not useful:
        raise TrainingDataError(
            f"no query has a relevant document among its {settings.depth} best, and another one: "
            "raise candidates.depth"
        )
    return useful, validation


def _read(table: JudgedTable, retriever: Retriever, progress: TrainingProgress) -> JudgedSet:
    judged = JudgedBy.of(table.queries, table.qrels)
    found = judged.matched(retriever, progress, allow_unknown=False)
    grades = {
        query_id: {name: grade for name, grade in each.items() if grade >= table.relevant_from}
        for query_id, each in found.qrels.items()
    }
    queries = [query for query in found.queries if grades[query.query_id]]
    return JudgedSet(queries, {query.query_id: grades[query.query_id] for query in queries}, "")


def _merged(sources: Sequence[JudgedSet]) -> JudgedSet:
    """The queries of all sources, with ids of their own."""

    def renamed() -> Iterable[tuple[Query, dict[str, int]]]:
        for number, source in enumerate(sources):
            for query in source.queries:
                name = f"{number}/{query.query_id}"
                yield Query(name, query.text), source.qrels[query.query_id]

    found = list(renamed())
    return JudgedSet([q for q, _ in found], {q.query_id: grades for q, grades in found}, "")
