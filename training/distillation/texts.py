"""The texts of a distillation: query logs, and sentences of corpora."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.collections import read_documents, read_queries
from swiftlet.corpora.lines import parse_lines
from swiftlet.corpora.records import query_text_from_json
from swiftlet.index.directory import documents
from swiftlet.manifest import FILE_NAME
from swiftlet.text import normalise
from swiftlet.types import Document
from training.distillation.sentences import sample_sentences
from training.distillation.settings import Distillation
from training.errors import TrainingDataError
from training.objective.negatives.sampler import Rows

FEWEST_TEXTS = 20
_MOST_HELD_OUT = 0.1
_JSON_SUFFIXES = {".jsonl", ".ndjson"}


@dataclass(frozen=True, slots=True)
class TextSource:
    """Distinct texts from one source, by row. `key` is a hash of them."""

    name: str
    lines: tuple[str, ...]
    key: str

    @classmethod
    def of(cls, name: str, texts: Iterable[str]) -> "TextSource":
        """The distinct texts among `texts`, normalised as encoders do."""
        read = map(normalised, texts)
        lines = tuple(dict.fromkeys(text for text in read if text))
        digest = hashlib.sha256()
        for line in lines:
            digest.update(line.encode() + b"\0")
        return cls(name, lines, digest.hexdigest())

    @property
    def num_passages(self) -> int:
        """The number of texts."""
        return len(self.lines)

    def texts(self, rows: Iterable[int]) -> list[str]:
        """The texts at `rows`, in that order."""
        return [self.lines[row] for row in rows]


def normalised(text: str) -> str:
    """The text as encoders read it, without space around it."""
    return normalise(text).strip()


@dataclass(frozen=True, slots=True)
class TextIndices:
    """The indices of texts (n,): the numbers of their sources, and their rows there."""

    sources: NDArray[np.int64]
    rows: Rows

    @classmethod
    def of_source(cls, number: int, count: int) -> "TextIndices":
        """The indices of the `count` texts of a source."""
        return cls(np.full(count, number), np.arange(count))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: NDArray[np.int64]) -> "TextIndices":
        return TextIndices(self.sources[chosen], self.rows[chosen])


@dataclass(frozen=True, slots=True)
class TextMixture:
    """All sources, with the indices of the training texts and of the held-out texts."""

    sources: tuple[TextSource, ...]
    training: TextIndices
    held_out: TextIndices

    def texts(self, indices: TextIndices) -> list[str]:
        """The texts at `indices`, in that order."""
        return [
            self.sources[source].lines[row]
            for source, row in zip(indices.sources.tolist(), indices.rows.tolist(), strict=True)
        ]


def read_texts(settings: Distillation, judged: Iterable[str] = ()) -> TextMixture:
    """Read the texts of `settings`, and hold out some of the queries, or else of the sentences.

    `judged` queries are all trained on, unless there are no other texts.

    The choice of held-out texts depends on the texts alone, so that different mixtures can be
    compared. A held-out text is never a training text, even in another case.

    :raises CollectionError: When a file is bad or empty.
    :raises TrainingDataError: When there are fewer than 20 distinct texts.
    """
    logs = [TextSource.of(name, read_query_texts(Path(name))) for name in settings.queries]
    sampled = []
    if settings.corpora:
        found_documents = chain.from_iterable(_documents(Path(name)) for name in settings.corpora)
        found = sample_sentences(found_documents, settings.sentences, settings.seed)
        sampled = [TextSource.of("sentences", (each.text for each in found))]
    known = TextSource.of("judged queries", judged)
    sources = [*logs, *sampled, *([known] if known.lines else [])]
    return hold_out(sources, len(logs) or len(sampled), settings.validation)


def _documents(corpus: Path) -> Iterator[Document]:
    return documents(corpus) if (corpus / FILE_NAME).is_file() else read_documents(corpus)


def read_query_texts(path: Path) -> Iterator[str]:
    """The texts of a query log, possibly with repetitions.

    The formats are as in `read_queries`. Lines of JSON need no id, and the text may also have
    the key "query".

    :raises CollectionError: When the log is bad or empty.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    if path.is_file() and suffixes[-1:] and suffixes[-1] in _JSON_SUFFIXES:
        return (text for _, text in parse_lines(path, query_text_from_json))
    return (query.text for query in read_queries(path))


def hold_out(sources: Sequence[TextSource], num_logs: int, wanted: int) -> TextMixture:
    """Hold out `wanted` texts of the first `num_logs` sources, or of all, but at most a tenth.

    :raises TrainingDataError: When there are fewer than 20 distinct texts.
    """
    distinct = {line.casefold() for source in sources for line in source.lines}
    if len(distinct) < FEWEST_TEXTS:
        names = ", ".join(source.name for source in sources)
        raise TrainingDataError(
            f"{names}: {len(distinct)} distinct texts are too few, at least {FEWEST_TEXTS} are "
            "needed: add queries, or the sentences of documents (--corpus)"
        )
    candidates = {
        line.casefold() for source in sources[: num_logs or None] for line in source.lines
    }
    count = max(1, min(wanted, int(len(candidates) * _MOST_HELD_OUT)))
    chosen = set(sorted(candidates, key=_digest)[:count])
    training: list[tuple[int, int]] = []
    held_out: dict[str, tuple[int, int]] = {}
    for number, source in enumerate(sources):
        for row, line in enumerate(source.lines):
            folded = line.casefold()
            if folded in chosen:
                held_out.setdefault(folded, (number, row))
            else:
                training.append((number, row))
    return TextMixture(tuple(sources), _indices(training), _indices(list(held_out.values())))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _indices(pairs: Sequence[tuple[int, int]]) -> TextIndices:
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return TextIndices(array[:, 0], array[:, 1])
