"""The texts of a distillation: query logs, and sentences of corpora."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from training.data.query_groups import digest
from training.data.sentences import sample_sentences
from training.distillation.settings import Distillation
from training.errors import TrainingDataError
from training.objective.negatives.sampler import Rows

FEWEST_TEXTS = 20
_MOST_HELD_OUT = 0.1
_JSON_SUFFIXES = {".jsonl", ".ndjson"}


@dataclass(frozen=True, slots=True)
class TextSource:
    """Distinct texts from one source, by row. `key` is a hash of them.

    `outputs` (n, width) are what a student learns to give, where no teacher is asked.
    """

    name: str
    lines: tuple[str, ...]
    key: str
    outputs: NDArray[np.float32] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, name: str, texts: Iterable[str]) -> "TextSource":
        """The distinct texts among `texts`, normalised as encoders do."""
        read = map(normalised, texts)
        lines = tuple(dict.fromkeys(text for text in read if text))
        digest = hashlib.sha256()
        for line in lines:
            digest.update(line.encode() + b"\0")
        return cls(name, lines, digest.hexdigest())

    def first(self, count: int) -> "TextSource":
        """The first texts, as a source whose outputs are known."""
        outputs = None if self.outputs is None else self.outputs[:count]
        return replace(self, lines=self.lines[:count], outputs=outputs)

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
class TextMixture:
    """All sources, and their `lines` one after the other.

    `training` and `held_out` are the numbers of the training texts and of the held-out texts.
    """

    sources: tuple[TextSource, ...]
    lines: tuple[str, ...]
    training: Rows
    held_out: Rows

    @property
    def num_asked(self) -> int:
        """The number of training texts whose outputs a teacher is asked for."""
        first, found = 0, 0
        for source in self.sources:
            here = (self.training >= first) & (self.training < first + source.num_passages)
            found += int(here.sum()) if source.outputs is None else 0
            first += source.num_passages
        return found

    def texts(self, numbers: Rows) -> list[str]:
        """The texts with these numbers, in that order."""
        return [self.lines[number] for number in numbers.tolist()]


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
    lines = tuple(line for source in sources for line in source.lines)
    distinct = {line.casefold() for line in lines}
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
    chosen = set(sorted(candidates, key=digest)[:count])
    training: list[int] = []
    held_out: dict[str, int] = {}
    for number, line in enumerate(lines):
        folded = line.casefold()
        if folded in chosen:
            held_out.setdefault(folded, number)
        else:
            training.append(number)
    found = (np.array([*each], dtype=np.int64) for each in (training, held_out.values()))
    return TextMixture(tuple(sources), lines, *found)
