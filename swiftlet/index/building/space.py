"""The embedding space of an index, as a build needs it: by its encoder, or by its vectors alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.index.documents.writer import StoredCorpus
from swiftlet.manifest import METRIC, Manifest
from swiftlet.types import Embeddings

_FEWEST_WORDS = 5
_MOST_WORDS = 12
# The encoder reads about this number of characters of a truncated document.
_LONGEST_CHARACTERS = 2_000
_SEED = 0

SampleQueries = Callable[[StoredCorpus, Embeddings, int], Embeddings]
"""Gives embeddings (q, dim) like those of queries, for a corpus with its embeddings (n, width)."""


@dataclass(frozen=True, slots=True)
class Space:
    """What a build needs to know of the vectors of an index, apart from the vectors.

    `queries` gives a number of embeddings to tune and measure searches by.
    """

    dim: int
    embedding_space: str
    queries: SampleQueries
    vectors: int = 1
    metric: str = METRIC
    normalised: bool = True
    tokenizer: Tokenizer | None = None

    @property
    def is_cosine(self) -> bool:
        """Whether scores are cosines."""
        return self.normalised and self.metric == METRIC

    @property
    def width(self) -> int:
        """How many numbers the embedding of a passage has."""
        return self.dim * self.vectors


def space_of_encoder(encoder: ModelEncoder, threads: int) -> Space:
    """The space into which a document encoder embeds; it reads spans of words as queries."""

    def queries(corpus: StoredCorpus, _: Embeddings, count: int) -> Embeddings:
        texts = sample_queries(corpus, count, np.random.default_rng(_SEED))
        # The document encoder reads them; of several vectors, the [CLS] token has the first.
        found = encode_texts(encoder.reading("query"), texts, threads)
        return np.ascontiguousarray(found[:, : encoder.dim])

    vectors, tokenizer = encoder.manifest.vectors, encoder.tokenizer
    return Space(encoder.dim, encoder.embedding_space, queries, vectors, tokenizer=tokenizer)


def space_of_index(manifest: Manifest, encoder: ModelEncoder | None, threads: int) -> Space:
    """The space of an index, which has no encoder where its vectors were made elsewhere."""
    if encoder is not None:
        found = space_of_encoder(encoder, threads)
        return replace(found, metric=manifest.metric, normalised=manifest.normalised)
    return Space(
        manifest.dim,
        manifest.embedding_space,
        random_queries,
        metric=manifest.metric,
        normalised=manifest.normalised,
    )


def random_queries(_: StoredCorpus, embeddings: Embeddings, count: int) -> Embeddings:
    """`count` vectors of random directions, as long as the embeddings (n, dim) are on average.

    A query lies apart from all passages, as far as embeddings of texts do. Rows, alone or mixed or
    with noise, lie so near to some list that a search of a few lists would seem to suffice.
    """
    random = np.random.default_rng(_SEED)
    queries = random.standard_normal((count, embeddings.shape[1]), np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    rows = random.integers(len(embeddings), size=count)
    queries *= np.linalg.norm(embeddings[rows], axis=1).mean()
    return queries


def sample_queries(corpus: StoredCorpus, count: int, random: np.random.Generator) -> list[str]:
    """`count` short spans of words, each from a random passage.

    Like a query, a span shares words with its passage and is about only a part of it. With whole
    passages as queries, the recall of an index would be overestimated.
    """
    rows = np.sort(random.integers(corpus.num_passages, size=count))
    return [span_of(text, random) for text in corpus.encoder_texts_at(rows)]


def span_of(text: str, random: np.random.Generator) -> str:
    """A short span of words of a passage."""
    words = text[:_LONGEST_CHARACTERS].split()
    length = int(random.integers(_FEWEST_WORDS, _MOST_WORDS + 1))
    start = int(random.integers(max(1, len(words) - length + 1)))
    return " ".join(words[start : start + length])
