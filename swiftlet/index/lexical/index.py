"""The lexical index: BM25 over the words of passages, by tantivy."""

import os
import tempfile
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import chain
from math import log1p
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tantivy
from typing_extensions import override

from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import CorruptIndexError, StorageError
from swiftlet.index.columns.columns import Columns
from swiftlet.index.columns.filters import Condition, Filter, fold
from swiftlet.index.lexical.analysis import (
    PIECES,
    VERSION,
    Analysis,
    analysis_of,
    check_analysis,
    united,
    version_in,
)
from swiftlet.index.lexical.postings import FILES, Postings, best_rows
from swiftlet.index.lexical.typos import corrections
from swiftlet.index.vectors.vector_index import (
    NO_SYNONYMS,
    Mask,
    Rows,
    SearchedWords,
    Synonyms,
    WordQuery,
)
from swiftlet.manifest import Manifest
from swiftlet.types import Embeddings, Span

LEXICAL_FOLDER = "lexical"
"""The folder of the lexical index in an index directory."""

PIECES_FILE = "tokenizer.json"
"""In that folder, the tokenizer of word pieces, if words are these."""

_ROW = "row"
_CODES = "codes"
_TEXT = "text"
_WORDS = "words"
_MOST_WORDS = 64
_COMMON_SHARE = 0.25
_COMMON = 1000
_FILTERED_AFTER = 0.1
"""If at least this share of passages is allowed, tantivy searches all: that is faster."""
_SURPLUS = 1.5
_WIDENING = 4
_MUST, _SHOULD = tantivy.Occur.Must, tantivy.Occur.Should
# A container with a read-only file system may have no other place for temporary files.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108


class AllWords(SearchedWords, Protocol):
    """All words of an index, of which those of some passages can be searched alone."""

    @abstractmethod
    def restricted_to(
        self, allowed: Mask, tree: Filter | None = None, columns: Columns | None = None
    ) -> SearchedWords:
        """The words of the `allowed` passages (size,).

        All that are allowed pass the filter `tree` on `columns`, if there is one.
        """
        ...


class LexicalIndex(AllWords):
    """Finds the passages that share words with a query. Thread-safe.

    The score of a passage is its BM25 score (k1 = 1.2, b = 0.75) divided by the sum of the inverse
    document frequencies of the query's words. So it is about 1 if a passage of average length has
    each word once, for any query and any corpus.

    Words in more than a quarter of all passages, and in more than 1,000, are not searched if a
    query has other words. The 64 rarest words of a long query are searched. A word that no passage
    has stands for the words that are one typing error away (`typos.py`).
    """

    def __init__(self, index: Any, analysis: Analysis) -> None:
        index.config_reader("manual")  # otherwise a thread watches the folder
        self.analysis = analysis
        index.register_tokenizer(_WORDS, analysis.analyser)
        self.schema = index.schema
        self.searcher = index.searcher()
        self.num_rows: int = self.searcher.num_docs
        self.size = self.num_rows
        """The passages that can be found."""
        self.postings: Postings | None = None
        """Those of all passages, if there are few enough; earlier indexes had none."""
        self.allowed: Mask | None = None
        self.filter: Any = None

    @classmethod
    def open(
        cls,
        folder: Path,
        language: str,
        version: int = VERSION,
        names: Sequence[str] | None = None,
    ) -> "LexicalIndex":
        """Map the files of `folder`, which `write_lexical_index` wrote, into memory.

        :param names: Those that have been verified; None takes all.

        :raises CorruptIndexError: When it cannot be read.
        :raises StorageError: When there is no place for temporary files.
        """
        pieces = Tokenizer.load(folder / PIECES_FILE) if language in PIECES else None
        analysis = analysis_of(language, pieces, version)
        names = os.listdir(folder) if names is None else names  # noqa: PTH208
        # tantivy locks a folder that it opens by a file in it, which fails on read-only storage.
        # So would a lock that an earlier version has left there.
        with _temporary_folder() as view:
            try:
                for name in names:
                    if name.startswith("."):
                        continue
                    Path(view, name).symlink_to((folder / name).absolute())
                with _damage():
                    found = cls(tantivy.Index.open(view), analysis)
            except (ValueError, OSError) as error:
                raise CorruptIndexError(
                    f"{folder} is no lexical index, or is damaged: restore the index from a copy"
                ) from error
        if {*FILES} <= {*names}:
            found.postings = Postings.open(folder, found.num_rows)
        return found

    @classmethod
    def of_index(cls, directory: Path, manifest: Manifest) -> "LexicalIndex | None":
        """`open`, of an index directory with this manifest, if it has words."""
        details = manifest.details
        language = details.get("language")  # indexes had none at first
        if not language:
            return None
        check_analysis(details)
        manifest.check_listed(directory, f"{LEXICAL_FOLDER}/meta.json")
        own = [name.split("/") for name in manifest.files]
        names = [each[1] for each in own if len(each) == 2 and each[0] == LEXICAL_FOLDER]
        return cls.open(directory / LEXICAL_FOLDER, language, version_in(details), names)

    @override
    def restricted_to(
        self, allowed: Mask, tree: Filter | None = None, columns: Columns | None = None
    ) -> "LexicalIndex":
        restricted = copy(self)
        restricted.size = int(np.count_nonzero(allowed))
        restricted.allowed = allowed
        restricted.filter = self._compiled(tree, columns) if tree and columns else None
        return restricted

    @override
    def parse(
        self, text: str, *, exact: bool = False, synonyms: Synonyms = NO_SYNONYMS
    ) -> "LexicalQuery":
        """The query for a text; no character has a special meaning."""
        return self.query(self.words(text, exact=exact, synonyms=synonyms))

    def query(self, words: "Words") -> "LexicalQuery":
        """The query for words; this index may be one of those that they were counted in."""
        if self.postings is None:
            return TantivyQuery(self, words)
        return PostingsQuery(self, words, self.postings)

    def words(
        self,
        text: str,
        *others: "LexicalIndex",
        exact: bool = False,
        synonyms: Synonyms = NO_SYNONYMS,
    ) -> "Words":
        """The words of a text.

        :param others: Indexes of the same collection; their passages count, too.
        :param exact: As in `parse`, like `synonyms`.
        """
        indexes = [self, *others]
        size = sum(each.num_rows for each in indexes)

        def passages(words: Sequence[str]) -> dict[str, int]:
            frequencies = zip(*(each.frequencies(words) for each in indexes), strict=True)
            return dict(zip(words, map(sum, frequencies), strict=True))

        return counted_words(text, self.analysis, size, passages, exact=exact, synonyms=synonyms)

    def frequencies(self, words: Sequence[str]) -> list[int]:
        """How many passages have each word."""
        if self.postings is not None:
            return self.postings.frequencies(words)
        with _damage():
            return [self.searcher.doc_freq(_TEXT, word) for word in words]

    def boost(self, weight: float, passages: int) -> float:
        """How many times the weight is that of a word in so many passages of this index alone."""
        return weight / inverse_frequency(passages, self.num_rows)

    def _compiled(self, tree: Filter, columns: Columns) -> Any:
        """The filter as tantivy's query."""

        def condition(node: Condition) -> Any:
            return either([self._codes(columns.codes(keys)) for keys in node.keys])

        def every(parts: list[Any]) -> Any:
            return _boolean(_MUST, parts or [tantivy.Query.all_query()])

        def either(parts: list[Any]) -> Any:
            return _boolean(_SHOULD, parts)

        def without(part: Any) -> Any:
            others = (tantivy.Occur.MustNot, part)
            return tantivy.Query.boolean_query([(_MUST, tantivy.Query.all_query()), others])

        found = fold(tree, condition, every, either, without)
        return tantivy.Query.const_score_query(found, 0.0)

    def _codes(self, codes: range) -> Any:
        if len(codes) == 0:
            return tantivy.Query.empty_query()
        if len(codes) == 1:
            return tantivy.Query.term_query(self.schema, _CODES, codes.start)
        kind, ends = tantivy.FieldType.Unsigned, (codes.start, codes.stop - 1)
        return tantivy.Query.range_query(self.schema, _CODES, kind, *ends, use_inverted_index=True)


@dataclass(frozen=True)
class Words:
    """The words of a query.

    `passages` are how many of all `size` passages have each word. The weight of a word is its
    inverse document frequency, as often as the query has it; a score is divided by the `weight` of
    all words. Those that are `searched` are ordered from the rarest; see `LexicalIndex`. Of words
    that stand for one of the query, the best one of a passage counts; all weigh as the commonest.
    """

    size: int
    passages: Mapping[str, int]
    weights: Mapping[str, float]
    weight: float
    searched: Sequence[str]
    instead: Sequence[Sequence[str]] = ()


def counted_words(
    text: str,
    analysis: Analysis,
    size: int,
    passages: Callable[[Sequence[str]], Mapping[str, int]],
    *,
    exact: bool = True,
    synonyms: Synonyms = NO_SYNONYMS,
) -> Words:
    """The words of a text.

    :param passages: Gives how many of all `size` passages have each of some words.
    :param exact: Correct no typing error.
    :param synonyms: The words that stand for a word.
    """
    readings = analysis.readings(text)
    counts = united(readings)
    names = Counter(analysis.names(text))
    found = passages([*dict.fromkeys([*counts, *names])])
    # A name that no passage has would only lower all scores: its parts are counted already.
    named = {name: count for name, count in names.items() if found[name]}
    counts.update(named)
    weights = {word: n * inverse_frequency(found[word], size) for word, n in counts.items()}
    known: list[tuple[int, str | Sequence[str]]]
    known = [(found[word], word) for word in counts if found[word]]
    groups: list[tuple[Sequence[str], Mapping[str, int]]] = []
    stood_for: Mapping[str, int] = {}
    if synonyms:
        groups = [*_synonyms(counts, synonyms, found, passages)]
        stood_for = dict.fromkeys((word for own, _ in groups for word in own), 1)
        known = [each for each in known if each[1] not in stood_for]
    if not exact and len(known) + len(groups) < len(counts):
        groups += corrections(text, analysis, {**found, **stood_for}, passages)
    for own, near in groups:
        most = max(near.values())
        weight = counts[own[0]] * inverse_frequency(most, size)
        weights |= dict.fromkeys((*own, *near), weight)
        known.append((most, [*near] if len(near) > 1 else next(iter(near))))
        found = {**near, **found}
    rarest = sorted(known, key=itemgetter(0))[:_MOST_WORDS]
    limit = max(_COMMON, _COMMON_SHARE * size)
    searched = [each for n, each in rarest if n <= limit] or [each for _, each in rarest]
    # Of a query that several languages read, the reading counts whose words are the commonest.
    weight = min(
        sum(weights[word] for word in {**dict.fromkeys(reading), **named}) for reading in readings
    )
    single = [each for each in searched if isinstance(each, str)]
    instead = [each for each in searched if not isinstance(each, str)]
    return Words(size, found, weights, weight or 1, single, instead)


def _synonyms(
    counts: Mapping[str, int],
    synonyms: Synonyms,
    found: Mapping[str, int],
    passages: Callable[[Sequence[str]], Mapping[str, int]],
) -> Iterator[tuple[Sequence[str], Mapping[str, int]]]:
    """Each word of a query that has synonyms, and the words that stand for it, with their numbers.

    They are itself and its synonyms, as far as passages have them and the query does not.
    """
    asked = {word: synonyms[word] for word in counts if word in synonyms}
    numbers = passages([*{*chain(*asked.values())} - counts.keys()])
    for word, others in asked.items():
        if near := {each: numbers[each] for each in others if numbers.get(each)}:
            yield [word], {word: found[word], **near} if found[word] else near


class LexicalQuery(WordQuery):
    """The words of a query, to be searched in a lexical index."""

    def __init__(self, index: LexicalIndex, words: Words) -> None:
        self._index, self._asked = index, words

    @override
    def highlights(self, text: str) -> tuple[Span, ...]:
        return self._highlighter(text)

    @cached_property
    def _highlighter(self) -> Callable[[str], tuple[Span, ...]]:
        words = self._asked
        return self._index.analysis.highlighter(chain(words.searched, *words.instead))


class PostingsQuery(LexicalQuery):
    """Searches words in arrays: one pass gives the scores of all passages."""

    def __init__(self, index: LexicalIndex, words: Words, postings: Postings) -> None:
        super().__init__(index, words)
        self._postings = postings

    @cached_property
    def _scores(self) -> Embeddings:
        words, allowed = self._asked, self._index.allowed
        scores = self._scores_of(words.searched)
        for each in words.instead:
            scores += reduce(np.maximum, [self._scores_of([word]) for word in each])
        scores /= np.float32(words.weight)
        return scores if allowed is None else scores * allowed

    def _scores_of(self, words: Sequence[str]) -> Embeddings:
        own = zip(words, self._index.frequencies(words), strict=True)
        boosts = [self._index.boost(self._asked.weights[word], n) for word, n in own]
        return self._postings.scores(words, boosts)

    @override
    def search(self, num_candidates: int) -> tuple[Embeddings, Rows]:
        rows = best_rows(self._scores, num_candidates)
        return self.scores(rows), rows

    @override
    def scores(self, rows: Rows) -> Embeddings:
        return self._scores[rows].astype(np.float32)


class TantivyQuery(LexicalQuery):
    """Searches words by tantivy, which finds the best passages without scoring all of them."""

    def __init__(self, index: LexicalIndex, words: Words) -> None:
        super().__init__(index, words)
        self._searcher, self._schema = index.searcher, index.schema
        self._size = index.num_rows
        self._weight = np.float32(words.weight)
        parts = [*self._terms(words, words.searched)]
        alternatives = ([*self._terms(words, each)] for each in words.instead)
        parts += [tantivy.Query.disjunction_max_query(each) for each in alternatives]
        self._words = _boolean(_SHOULD, parts)

    def _terms(self, words: Words, some: Sequence[str]) -> Iterator[Any]:
        for word in some:
            # tantivy weighs a word by the passages of this index alone.
            is_whole = self._size == words.size
            own = words.passages[word] if is_whole else self._searcher.doc_freq(_TEXT, word)
            if own:
                boost = self._index.boost(words.weights[word], own)
                query = tantivy.Query.term_query(self._schema, _TEXT, word, "freq")
                yield query if boost == 1 else tantivy.Query.boost_query(query, boost)

    @override
    def search(self, num_candidates: int) -> tuple[Embeddings, Rows]:
        if not self._index.size:
            return np.empty(0, np.float32), np.empty(0, np.int64)
        allowed, compiled = self._index.allowed, self._index.filter
        if allowed is None:
            return self._found(self._words, num_candidates)
        share = self._index.size / self._size
        filtered = share < _FILTERED_AFTER and compiled is not None
        wanted = num_candidates
        if not filtered:
            wanted = int(num_candidates * _SURPLUS / max(share, 1 / self._size))
        while True:
            words = _boolean(_MUST, [self._words, compiled]) if filtered else self._words
            scores, rows = self._found(words, wanted)
            kept = allowed[rows]
            if len(rows) < wanted or np.count_nonzero(kept) >= num_candidates:
                return scores[kept][:num_candidates], rows[kept][:num_candidates]
            # The words are rarer in the allowed passages than in the other passages.
            if filtered or compiled is None:
                wanted *= _WIDENING
            else:
                filtered, wanted = True, num_candidates

    @override
    def scores(self, rows: Rows) -> Embeddings:
        wanted = tantivy.Query.boolean_query(
            [(_SHOULD, tantivy.Query.term_query(self._schema, _ROW, row)) for row in rows.tolist()]
        )
        both = [self._words, tantivy.Query.const_score_query(wanted, 0.0)]
        found, at = self._found(_boolean(_MUST, both), len(rows))
        scores = np.zeros(len(rows), dtype=np.float32)
        scores[np.searchsorted(rows, at)] = found
        return scores

    def _found(self, query: Any, most: int) -> tuple[Embeddings, Rows]:
        with _damage():
            # tantivy reserves memory for as many hits as are asked for.
            hits = self._searcher.search(query, min(most, self._size), count=False).hits
            scores, addresses = zip(*hits, strict=True) if hits else ((), ())
            rows = np.array(self._searcher.fast_field_values(_ROW, addresses), np.int64)
        return np.array(scores, np.float32) / self._weight, rows


def inverse_frequency(passages_with: int, size: int) -> float:
    """The inverse document frequency of a word in `passages_with` of `size` passages."""
    return log1p((size - passages_with + 0.5) / (passages_with + 0.5))


@contextmanager
def _damage() -> Iterator[None]:
    """Refuse an altered lexical index: tantivy panics over one, which is no `Exception`."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise CorruptIndexError(
            "the lexical index has been altered: restore the index from a copy"
        ) from error


def _boolean(occur: Any, parts: list[Any]) -> Any:
    return tantivy.Query.boolean_query([(occur, part) for part in parts])


def empty_index(analysis: Analysis, folder: Path | None = None) -> Any:
    """An index of tantivy without passages, in `folder` or in memory."""
    schema = tantivy.SchemaBuilder()
    schema.add_text_field(_TEXT, tokenizer_name=_WORDS, index_option="freq")
    schema.add_unsigned_field(_ROW, indexed=True, fast=True)
    schema.add_unsigned_field(_CODES, indexed=True)
    index = tantivy.Index(schema.build(), None if folder is None else str(folder))
    index.config_reader("manual")  # else a thread watches the folder, and locks it by a file in it
    index.register_tokenizer(_WORDS, analysis.analyser)
    return index


def indexed_passage(row: int, words: str, codes: Sequence[int] = ()) -> Any:
    """A passage as tantivy takes it: what `Analysis.indexed` gives of it, and its codes."""
    passage = tantivy.Document()
    passage.add_text(_TEXT, words)
    passage.add_unsigned(_ROW, row)
    for code in codes:
        passage.add_unsigned(_CODES, code)
    return passage


def _temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    # tantivy's thread may write its lock into the folder while it is being removed.
    folder = partial(tempfile.TemporaryDirectory, ignore_cleanup_errors=True)
    try:
        return folder()
    except OSError:
        pass
    try:
        return folder(dir=_SHARED_MEMORY)
    except OSError as error:
        raise StorageError(
            f"there is no place for temporary files: {error.strerror}; set TMPDIR to a folder that "
            "can be written"
        ) from error
