"""People who search, click and judge, played by programs from hidden judgements."""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import swiftlet
from experiments import indexes, interleaving
from export.quality import Collection
from measuring.experiment import Stages, settings_beside
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.evaluation.experiment import JudgedSet, run_queries
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.relevance.interleaving import BOTH, CHALLENGER, TODAY, anytime_p, team_draft
from swiftlet.relevance.judgements import write_collection
from swiftlet.relevance.log import LoggedSearch, LogWriter
from swiftlet.relevance.pool import new_pool, pooled
from swiftlet.relevance.sampling import queries_of_log
from swiftlet.types import Query

SETTINGS = settings_beside(__file__)
ENCODER = LOOKUP_QUERY_ENCODER
"""The query encoder of today's searches."""

_MOST_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class People:
    """An index, the queries that people ask now, and those that they ask later.

    No query of one has a relevant document in common with a query of the other.
    """

    index: Path
    now: Collection
    later: Collection

    @classmethod
    def of(cls, options: Namespace, name: str) -> "People":
        """Those of a collection; a random half of the documents is what they look for now."""
        found = indexes.collections(options.data)[name]()
        ids = [each.document_id for each in found.documents]
        first = {*Random(0).sample(ids, len(ids) // 2)}
        relevant = {q: {d for d, grade in of.items() if grade} for q, of in found.qrels.items()}
        now = [each for each in found.queries if relevant[each.query_id] <= first]
        later = [each for each in found.queries if not relevant[each.query_id] & first]
        index = indexes.index_of(indexes.folder_of(options, name), found)
        return cls(index, replace(found, queries=now), replace(found, queries=later))

    def quality(self, encoder: Path, **fields: Any) -> float:
        """nDCG@10 of later queries."""
        return fmean(indexes.values_of(self.index, encoder, self.later, **fields).values())

    def write_log(self, log: Path, draw: Random) -> None:
        """The searches of a while, as a service logs them."""
        asked = self._asked(draw)
        writer = LogWriter(log, most_bytes=_MOST_BYTES, days=1)
        writer.append(
            [
                LoggedSearch(
                    time=number, id=f"{number}", session="", query=next(asked).text,
                    mode="hybrid", index="", hits=[],
                )
                for number in range(SETTINGS["searches"])
            ]
        )  # fmt: skip
        writer.close()

    def judge(self, log: Path, count: int, folder: Path) -> JudgedSet:
        """Write what a judge says who has time for so many documents, as `swiftlet judge` would."""
        with (
            swiftlet.open(self.index, encoder=ENCODER) as today,
            swiftlet.open(self.index) as own,
        ):
            texts = queries_of_log(log, today, count, "stratified")
            pool = pooled(new_pool(texts), [today, own], SETTINGS["depth"], Stages())
        wanted = {each.text: self.now.qrels[each.query_id] for each in self.now.queries}
        grades = {
            (query.query_id, each.document_id): wanted[query.text].get(each.document_id, 0)
            for query, each in [*pool.documents][:count]
        }
        write_collection(folder, pool, grades)
        qrels: dict[str, dict[str, int]] = {}
        for (query_id, document_id), grade in grades.items():
            qrels.setdefault(query_id, {})[document_id] = grade
        found = [each for each in pool.queries if any(qrels.get(each.query_id, {}).values())]
        return JudgedSet([Query(each.query_id, each.text) for each in found], qrels, "")

    def preferred(self, challenger: Path, user: str, clicks: int, draw: Random) -> Path | None:
        """The encoder that clicks on interleaved answers prefer, if the test says so by then."""
        pairs = [*zip(*map(self._rankings, (ENCODER, challenger)), strict=True)]
        of_query = dict(zip([each.query_id for each in self.now.queries], pairs, strict=True))
        votes = list[bool]()
        for query in self._asked(draw):
            one, other = of_query[query.query_id]
            mixed, teams = team_draft(one, other, lambda each: each[0], draw)
            opened = interleaving.clicks(mixed, interleaving.USERS[user], draw)
            given = [teams[place] for place in opened if teams[place] != BOTH]
            if balance := given.count(CHALLENGER) - given.count(TODAY):
                votes.append(balance > 0)
            if (clicks := clicks - len(opened)) <= 0:
                break
        if anytime_p(votes) > interleaving.OF["level"]:
            return None
        return challenger if sum(votes) > len(votes) / 2 else ENCODER

    def _asked(self, draw: Random) -> Iterator[Query]:
        """Queries without end; the second one is asked half as often as the first one, and so on"""
        queries = draw.sample(self.now.queries, len(self.now.queries))
        shares = [*accumulate(1 / place for place in range(1, len(queries) + 1))]
        while True:
            yield draw.choices(queries, cum_weights=shares)[0]

    def _rankings(self, encoder: Path) -> list[list[tuple[str, bool]]]:
        """The best documents of each query that is asked now, and whether they are relevant."""
        with swiftlet.open(self.index, encoder=encoder) as searcher:
            retriever = SearcherRetriever(searcher)
            run = run_queries(retriever, self.now.queries, top_k=interleaving.DEPTH)
        qrels = self.now.qrels
        return [
            [(each, qrels[query_id].get(each, 0) > 0) for each in hits]
            for query_id, hits in run.items()
        ]
