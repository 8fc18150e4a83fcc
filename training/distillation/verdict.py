"""Whether a student is good enough for the index that it has learnt from."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from swiftlet.encoders.encoder import Encoder
from swiftlet.encoders.opening import open_encoder
from swiftlet.errors import RetrievalError
from swiftlet.evaluation.experiment import JudgedSet
from swiftlet.index.query_encoder import query_encoder_if_any
from swiftlet.index.vectors.vector_index import VectorIndex
from swiftlet.manifest import read_manifest
from swiftlet.types import Query
from training.distillation.overlap import IndexComparison, Overlap, ndcg
from training.distillation.pairs import IndexPairs
from training.distillation.teacher import Targets

LEAST_KEPT = 0.7
"""The share of the nDCG@10 of held-out sentences and titles that the index's own query encoder has.

From it on a student is good enough. With this bound and the next one, 85% of the nDCG@10 of queries
or more is mostly kept (docs/results/own-vectors.md).
"""

LEAST_OF_KNOWN_ITEMS = 0.6
"""The nDCG@10 of held-out sentences and titles, where no other query encoder is known."""

LEAST_OF_PASSAGES = 0.55
"""The share of the nearest passages of held-out passages, where no sentence was held out."""

LEAST_OF_RELATED = 0.1
"""Below it, the texts and the vectors have perhaps nothing to do with each other."""

LEVEL_OF_TRAINED, KEPT_BY_TRAINED = 0.7, 0.85
"""What a training reaches of held-out sentences, and of what the own query encoder has of them.

A closed form from there on mostly gains nothing by a training (docs/results/own-vectors.md).
"""

_PASSAGES, _NEAREST = 200, 10
_MANY_UNKNOWN = 0.2
_STEPS = (1_000, 10_000, 100_000)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The figures by which a student is judged.

    `passages` is the share of the 10 nearest passages of a held-out passage that the student finds
    by its text; `known_items` is the nDCG@10 of sentences and titles of held-out documents, each a
    query for its document, or None if there are none. If the index's own query encoder is known,
    `own_known_items` is its nDCG@10 of them, and `overlap` the overlap@10 with it. `queries` is the
    number of queries with a teacher's vectors that were learnt. `unknown` is the share of the
    tokens of held-out passages that the student's tokenizer does not know. After a training,
    `before` and `trained` are the `figure` of the closed form that it began with and its own
    highest one: the student is the better of the two, and the closed form if they are equal.
    """

    passages: float
    known_items: float | None
    queries: int
    own_known_items: float | None = None
    overlap: float | None = None
    unknown: float = 0.0
    before: float | None = None
    trained: float | None = None

    @classmethod
    def of_run(cls, run: Path) -> "Verdict | None":
        """That of a finished run; None if it was not judged."""
        details = read_manifest(run).details.get("verdict")
        if details is None:
            return None
        known = {each.name: details[each.name] for each in fields(cls) if each.name in details}
        return cls(**{"known_items": None, **known})

    @property
    def figure(self) -> float:
        """What the verdict goes by: sentences and titles, or passages where there are none."""
        return self.passages if self.known_items is None else self.known_items

    @property
    def may_gain(self) -> bool:
        """Whether a training mostly takes the closed form further."""
        if self.known_items is None:
            return True
        if self.own_known_items is not None:
            return self.known_items < KEPT_BY_TRAINED * self.own_known_items
        return self.known_items < LEVEL_OF_TRAINED

    @property
    def is_good(self) -> bool:
        """Whether to use the student."""
        if self.known_items is None:
            return self.passages >= LEAST_OF_PASSAGES
        if self.own_known_items is not None:
            return self.known_items >= LEAST_KEPT * self.own_known_items
        return self.known_items >= LEAST_OF_KNOWN_ITEMS

    @property
    def cannot_read(self) -> bool:
        """Whether the texts are in a language that the student's tokenizer does not know."""
        return self.unknown >= _MANY_UNKNOWN

    @property
    def wanted_queries(self) -> int:
        """How many queries with a teacher's vectors to learn from next."""
        return next((step for step in _STEPS if step > self.queries), 10 * self.queries)

    def as_details(self) -> dict[str, Any]:
        """For a manifest."""
        found = {name: value for name, value in asdict(self).items() if value is not None}
        return {**found, "is_good": self.is_good}


def own_encoder(index: Path, targets: Targets) -> Encoder | None:
    """The query encoder of an index, if it is known and of the index's space."""
    try:
        place = query_encoder_if_any(index)
    except RetrievalError:  # it is no longer there
        return None
    if place is None:
        return None
    encoder = open_encoder(place, "query")
    return encoder if encoder.embedding_space == targets.embedding_space else None


def judge(
    comparison: IndexComparison,
    student: Encoder,
    pairs: IndexPairs,
    queries: int,
    own: Encoder | None = None,
    overlaps: Sequence[Overlap] = (),
    unknown: float = 0.0,
    **figures: float | None,
) -> Verdict:
    """Judge a student by the texts that were held out.

    :param queries: The number of queries with a teacher's vectors that it has learnt.
    :param own: The index's own query encoder, if it is known.
    :param overlaps: With that encoder.
    :param unknown: The share of tokens that it does not know.
    :param figures: `before` and `trained`, after a training.
    """
    return Verdict(
        passages=_share_of_neighbours(comparison.index, student, pairs),
        known_items=_known_items(comparison, student, pairs),
        queries=queries,
        own_known_items=None if own is None else _known_items(comparison, own, pairs),
        overlap=overlaps[0].overlap_10 if overlaps else None,
        unknown=unknown,
        **figures,
    )


def figure_of(comparison: IndexComparison, student: Encoder, pairs: IndexPairs) -> float:
    """The `figure` of a student's verdict."""
    found = _known_items(comparison, student, pairs)
    return _share_of_neighbours(comparison.index, student, pairs) if found is None else found


def _known_items(comparison: IndexComparison, encoder: Encoder, pairs: IndexPairs) -> float | None:
    named = [Query(f"{place}", item.text) for place, item in enumerate(pairs.known_items)]
    qrels = {f"{place}": {item.document_id: 1} for place, item in enumerate(pairs.known_items)}
    if not named:
        return None
    return ndcg(comparison.retriever(encoder), JudgedSet(named, qrels, ""))


def _share_of_neighbours(index: VectorIndex, student: Encoder, pairs: IndexPairs) -> float:
    outputs = pairs.passages.outputs
    assert outputs is not None  # noqa: S101 - passages have vectors
    shares = []
    for place in np.flatnonzero(pairs.is_held_out)[:_PASSAGES]:
        found = student.encode([pairs.passages.lines[place]])[0]
        wanted, reached = (index.search(each, _NEAREST)[1] for each in (outputs[place], found))
        shares.append(len(np.intersect1d(wanted, reached)) / len(wanted))
    return fmean(shares)
