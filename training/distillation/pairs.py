"""What an index teaches without any teacher: its texts, and the vectors of their passages."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import InvalidArgumentError, QueryError
from swiftlet.index.contents import Contents
from swiftlet.index.documents.passages import encoder_text, read_texts
from swiftlet.index.documents.split import SplitDocument
from swiftlet.manifest import L2, Manifest
from swiftlet.text import check_query
from swiftlet.types import Document, Passage
from training.data.query_groups import digest
from training.data.sentences import Sentence, sample_sentences, sentences
from training.distillation.settings import Distillation
from training.distillation.texts import FEWEST_TEXTS, TextMixture, TextSource, normalised
from training.errors import TrainingDataError

MOST_PASSAGES = 50_000
_SPANS = 2
_FEWEST_WORDS, _MOST_WORDS = 3, 12

_BEGINNING = 400
"""The characters of a passage that a training reads: about 64 tokens, a quarter of the time of all.

The parts of the passage stand for the rest.
"""

_SAME_LENGTH = 1.1
"""Lengths of one model's vectors differ by less, also as the codes of an index keep them."""

_ALL_THE_SAME = 0.9999
"""The length of the mean of directions that differ by nothing but rounding."""

_FEWEST_DOCUMENTS = 20
"""From as many on, whole documents are held out."""

_HELD_OUT_DOCUMENTS, _MOST_HELD_OUT, _KNOWN_ITEMS = 500, 0.1, 500


@dataclass(frozen=True, slots=True)
class IndexPairs:
    """Passages with their vectors, (n, width), as the outputs that a student learns for them.

    `is_held_out` (n,) are those of documents that nothing is learnt from. `known_items` are
    sentences and titles of these documents, each a query for its document. `parts` are short texts
    of the other passages, each with the vector of its passage, which is near its own at best.
    """

    passages: TextSource
    parts: TextSource
    is_held_out: NDArray[np.bool]
    known_items: tuple[Sentence, ...]

    @property
    def held_out_lines(self) -> list[str]:
        """The texts that are held out."""
        return self.passages.texts(np.flatnonzero(self.is_held_out).tolist())

    def mixture(self, others: TextMixture | None, settings: Distillation) -> TextMixture:
        """The passages, then `others`, whose held-out texts alone are held out if there are any.

        Where the scores of passages are learnt, the passages are cut, and their parts come second.
        """
        sources, training = [self.passages], np.flatnonzero(~self.is_held_out)
        held_out = np.flatnonzero(self.is_held_out)[: settings.validation]
        first = self.passages.num_passages
        if settings.learns_scores:
            cut = tuple(line[:_BEGINNING] for line in self.passages.lines)
            parts = self.parts.first(settings.parts * len(training))
            sources = [replace(self.passages, lines=cut), parts]
            training = np.append(training, first + np.arange(parts.num_passages))
            first += parts.num_passages
        if others is not None:
            sources += others.sources
            training = np.append(training, others.training + first)
            held_out = others.held_out + first
        lines = tuple(line for source in sources for line in source.lines)
        return TextMixture(tuple(sources), lines, training, held_out)


def read_pairs(index: Path, manifest: Manifest, seed: int) -> IndexPairs:
    """At most 50,000 passages of an index; its changes are included.

    A tenth of their documents, at most 500, is held out: always the same ones, by their ids.

    :raises InvalidArgumentError: When the index cannot teach: its passages have several vectors,
        or are compared by distances with lengths that differ, or cannot be read from it.
    :raises TrainingDataError: When there are too few passages with a text.
    """
    if manifest.vectors > 1:
        raise InvalidArgumentError(
            f"{index} has several vectors for a passage, but a query has one: name a --teacher"
        )
    contents = Contents(index, manifest)
    found = _sample(contents, seed)
    outputs = _directions(_outputs(contents, [row for row, *_ in found]), index, manifest)
    names = _parts(found)
    count = max(1, min(_HELD_OUT_DOCUMENTS, int(len(set(names)) * _MOST_HELD_OUT)))
    held_out = frozenset(sorted(set(names), key=digest)[:count])
    first: dict[str, int] = {}
    for place, (_, document, passage) in enumerate(found):
        span = passage.start, passage.end
        if text := normalised(next(read_texts(document, [span], manifest.details))):
            first.setdefault(text, place)
    if len(first) < FEWEST_TEXTS:
        raise TrainingDataError(
            f"{index} has {len(first)} different passages with a text, at least {FEWEST_TEXTS} are "
            "needed to learn from: add documents to the index, or name a --teacher with texts of "
            "the same subjects (--queries or --corpus)"
        )
    places = [*first.values()]
    if np.linalg.norm(outputs[places].mean(axis=0)) > _ALL_THE_SAME:
        raise TrainingDataError(
            f"the vectors of {index} are all the same, so that there is nothing to learn: adopt "
            "those that a model has made"
        )
    source = replace(TextSource.of("passages", first), outputs=outputs[places])
    is_held_out = np.array([names[place] in held_out for place in places])
    learnt = [place for place, held in zip(places, is_held_out, strict=True) if not held]
    left = {d.document_id: d for _, d, _ in found if d.document_id in held_out}
    return IndexPairs(
        source,
        _parts_of([found[place][1:] for place in learnt], outputs[learnt], seed),
        is_held_out,
        tuple(_askable(sample_sentences(left.values(), _KNOWN_ITEMS, seed))),
    )


def _parts_of(
    passages: Sequence[tuple[SplitDocument, Passage]], outputs: NDArray[np.float32], seed: int
) -> TextSource:
    """Titles, sentences and spans of words of passages, which are as short as queries; shuffled."""
    random, found = Random(seed), dict[str, int]()  # noqa: S311 - a sample, not a secret
    for place, (document, passage) in enumerate(passages):
        words = encoder_text(document.title, passage.text).split()
        texts = [*sentences(Document("", passage.text, document.title))]
        for _ in range(_SPANS):
            length = random.randint(_FEWEST_WORDS, _MOST_WORDS)
            start = random.randrange(max(1, len(words) - length))
            texts.append(" ".join(words[start : start + length]))
        for text in filter(None, map(normalised, texts)):
            found.setdefault(text, place)
    chosen = random.sample([*found], min(MOST_PASSAGES, len(found)))
    wanted = outputs[[found[text] for text in chosen]]
    return replace(TextSource.of("parts", chosen), outputs=wanted)


def _parts(found: Sequence[tuple[int, SplitDocument, Passage]]) -> list[str]:
    """For each passage, the name of what is held out with it: its document, or a passage alone."""
    ids = [document.document_id for _, document, _ in found]
    if len(set(ids)) >= _FEWEST_DOCUMENTS:
        return ids
    return [f"{document_id} {row}" for (row, *_), document_id in zip(found, ids, strict=True)]


def _askable(items: Iterable[Sentence]) -> Iterator[Sentence]:
    """Those that can be queries."""
    for item in items:
        with suppress(QueryError):
            yield item._replace(text=check_query(normalised(item.text)))


def _directions(
    vectors: NDArray[np.float32], index: Path, manifest: Manifest
) -> NDArray[np.float32]:
    """Vectors (n, width) with the length 1, which an encoder gives its queries, too.

    The length of a query does not change the order of inner products, nor of distances from vectors
    that have all the same length.
    """
    if manifest.normalised:
        return vectors
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if manifest.metric == L2 and lengths.max() > _SAME_LENGTH * lengths.min():
        raise InvalidArgumentError(
            f"{index} compares by distances (l2), and its vectors have lengths from "
            f"{lengths.min():.3g} to {lengths.max():.3g}, but an exported encoder gives embeddings "
            "of length 1: adopt the vectors with --metric inner_product, or cosine"
        )
    found: NDArray[np.float32] = vectors / lengths
    return found


def _sample(contents: Contents, seed: int) -> list[tuple[int, SplitDocument, Passage]]:
    """A uniform sample of at most 50,000 passages, by row."""
    random = Random(seed)  # noqa: S311 - a sample, not a secret
    kept: list[tuple[int, SplitDocument, Passage]] = []
    every = (
        (document, passage)
        for document in contents.documents()
        for passage in contents.split(document)
    )
    for row, (document, passage) in enumerate(every):
        if len(kept) < MOST_PASSAGES:
            kept.append((row, document, passage))
        elif (place := random.randrange(row + 1)) < MOST_PASSAGES:
            kept[place] = row, document, passage
    return sorted(kept, key=itemgetter(0))


def _outputs(contents: Contents, rows: list[int]) -> NDArray[np.float32]:
    """The vectors (n, width) of the passages at `rows`, ascending."""
    wanted, first, found = np.array(rows), 0, []
    for block in contents.embeddings():
        here = wanted[(wanted >= first) & (wanted < first + len(block))] - first
        found.append(np.asarray(block[here], np.float32))
        first += len(block)
    return np.concatenate(found)
