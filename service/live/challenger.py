"""A second way to search: its documents are mixed into answers, or only compared with them."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Histogram

from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import check_embedding_space
from swiftlet.relevance.interleaving import team_draft
from swiftlet.search.request import Mode, SearchRequest
from swiftlet.search.searcher import Searcher
from swiftlet.types import Hit

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_SHARES = tuple(tenth / 10 for tenth in range(11))
_SHARE_OF_LAST = 0.1
_OF_INDEX = ("mode", "weight", "rerank", "group_by", "embedding", "min_score", "boost", "sort")
"""Fields of a request that say themselves how to search, and so leave nothing to compare."""

logger = logging.getLogger(__name__)


class Challenger:
    """Asks the same index by another encoder, weight or mode. Whatever fails in it stays here."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        encoder: OnnxEncoder | None = None,
        weight: float | None = None,
        mode: Mode | None = None,
        is_shadow: bool = False,
    ) -> None:
        """Take what differs from today's search.

        :param is_shadow: Answers stay as they are; what is found is only compared.
        """
        self._encoder, self._weight, self._mode = encoder, weight, mode
        self._is_shadow, self._is_failing, self._expected_seconds = is_shadow, False, 0.0
        given = {
            "encoder": encoder and f"{_name_of(encoder)} {encoder.manifest.fingerprint[:8]}",
            "weight": weight,
            "mode": mode,
        }
        self.name = ", ".join(f"{name} {each}" for name, each in given.items() if each is not None)
        """What differs, in words."""
        searches = Counter(
            "swiftlet_challenger_searches",
            "Searches that the challenger made, too, by what became of them.",
            ["outcome"],
            registry=registry,
        )
        outcome = "compared" if is_shadow else "mixed"
        self._done, self._late, self._failed = map(searches.labels, (outcome, "late", "failed"))
        self._seconds = Histogram(
            "swiftlet_challenger_seconds",
            "The time of these searches.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._overlap = Histogram(
            "swiftlet_challenger_overlap",
            "The share of the documents of an answer that both found.",
            buckets=_SHARES,
            registry=registry,
        )

    def check(self, searcher: Searcher) -> None:
        """Search once.

        :raises EmbeddingSpaceMismatch: When the encoder is of another space than the index.
        :raises RetrievalError: When the index cannot be searched so.
        """
        try:
            searcher.mode_of(self._mode)
            searcher.search(self._request(searcher, SearchRequest("warm up")))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"the challenger cannot search: {error}") from error

    def takes(self, asked: SearchRequest) -> bool:
        """Whether a search leaves open what differs, and is for a first page of documents."""
        plain = asked.fusion == "weighted" and asked.format == "hits" and not asked.offset
        return plain and all(getattr(asked, name) is None for name in _OF_INDEX)

    def hits(
        self,
        searcher: Searcher,
        asked: SearchRequest,
        today: Sequence[Hit],
        *,
        seed: str,
        deadline: float,
    ) -> tuple[Sequence[Hit], str]:
        """The documents to answer with, and the team of each; no teams if they are today's.

        :param seed: The same for a client that asks the same again, which sees the same order.
        :param deadline: The time of `perf_counter` after which an answer is late.
        """
        began = perf_counter()
        if began + self._expected_seconds > deadline:
            self._late.inc()
            self._expected_seconds *= 1 - _SHARE_OF_LAST  # else one slow time would end it for good
            return today, ""
        try:
            found = searcher.search(self._request(searcher, asked)).hits
        except Exception as error:  # noqa: BLE001 - an answer must not depend on the challenger
            self._failed.inc()
            if not self._is_failing:
                logger.warning("the challenger fails, and answers stay as they are: %s", error)
            self._is_failing = True
            return today, ""
        self._is_failing = False
        self._done.inc()
        self._seconds.observe(seconds := perf_counter() - began)
        self._expected_seconds += _SHARE_OF_LAST * (seconds - self._expected_seconds)
        both = {hit.document_id for hit in today} & {hit.document_id for hit in found}
        self._overlap.observe(len(both) / max(1, len(today), len(found)))
        if self._is_shadow:
            return today, ""
        draw = Random(f"{seed} {asked.query}")  # noqa: S311 - nobody gains by guessing it
        return team_draft(today, found, lambda hit: hit.document_id, draw)

    def _request(self, searcher: Searcher, asked: SearchRequest) -> SearchRequest:
        embedding = None
        if self._encoder is not None:
            check_embedding_space(  # a reload may bring an index of another space
                f"the challenger's encoder {_name_of(self._encoder)!r}",
                self._encoder.embedding_space,
                self._encoder.dim,
                searcher.index_manifest,
            )
            (vector,) = self._encoder.encode([asked.query])
            embedding = tuple(vector.tolist())
        return replace(asked, embedding=embedding, weight=self._weight, mode=self._mode)


def _name_of(encoder: OnnxEncoder) -> str:
    return f"{encoder.manifest.details.get('name', '')}"
