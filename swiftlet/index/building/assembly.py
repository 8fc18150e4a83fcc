"""Puts an index directory together from documents, passages and embeddings."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from swiftlet.corpora.languages import Languages
from swiftlet.disk import save_array
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.building.draft import describe
from swiftlet.index.building.embeddings import NewCorpus
from swiftlet.index.building.space import Space
from swiftlet.index.building.words import index_words
from swiftlet.index.columns.boosts import BoostObjects, check_boosts, parse_boosts
from swiftlet.index.columns.columns import COLUMN_FILES, COLUMNS_FOLDER, Columns, write_columns
from swiftlet.index.columns.facets import check_facets, file_facets
from swiftlet.index.contents import EncodedCorpus
from swiftlet.index.documents.numbers import PASSAGE_TO_DOCUMENT_FILE
from swiftlet.index.documents.passages import reads_headings
from swiftlet.index.documents.store import DOCUMENTS_FILE
from swiftlet.index.documents.writer import StoredCorpus, write_documents
from swiftlet.index.lexical import AUTO
from swiftlet.index.lexical.analysis import ANALYSIS, PIECES, VERSION, words_of
from swiftlet.index.vectors import index_details, of_vectors
from swiftlet.index.vectors.dense_scale import measured_scale
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.index.vectors.tuning import (
    TARGET,
    TUNED_CANDIDATES,
    exact_rows,
    found_rows,
    near_recall,
    recall,
    tune,
)
from swiftlet.index.vectors.vector_index import Engine, VectorIndex, num_candidates_for
from swiftlet.manifest import Manifest
from swiftlet.progress import Progress
from swiftlet.types import Embeddings

_ADDED_ROWS = 65_536
_SAMPLE_QUERIES = 1_000
_SAMPLE_QUERIES_PER_PASSAGE = 4
_NOISE = 0.0045  # the standard error of 99% of 500 queries
_SEED = 0
LANGUAGES = "languages"
"""The manifest's key of the share of documents in each language, if a build has looked for it."""

Work = Callable[[], Sequence[str]]

FOUND = "recall@10 within 1%"
"""The manifest's key of the share of the first ten passages found that are near enough."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A vector index that has learned from `num_passages` passages how to code embeddings.

    It is empty, or has the embeddings already. `found` is the share of passages near enough among
    the first ten that it found then.
    """

    index: VectorIndex
    factory: str
    num_passages: int
    found: float


@dataclass(frozen=True, slots=True)
class Assembly:
    """How the parts of an index directory are made.

    `factory` is the type of index; None chooses by size. `language` None makes no lexical index,
    and "auto" takes the languages of the documents, which are then told to `found`. Its words are
    of this version of the `analysis`. Some document must have each of the `facets`, and what the
    `boost` names; without facets, an index of files has those of `file_facets`. `details` are the
    manifest's, as far as the parts do not matter. `beside` begins work that can be pickled, in
    another process; what it returns waits for the result.
    """

    space: Space
    engine: type[Engine]
    factory: str | None
    language: str | None
    threads: int
    progress: Progress
    details: Mapping[str, Any]
    facets: Sequence[str] = ()
    boost: BoostObjects = ()
    analysis: int = VERSION
    found: Callable[[Languages], None] = lambda _: None
    beside: Callable[[Work], Work] | None = None

    def write(
        self,
        artefact: Path,
        source: EncodedCorpus | NewCorpus,
        file: EmbeddingsFile,
        trained: Callable[[int], Trained | None] = lambda _: None,
        also: Callable[[StoredCorpus, Embeddings], Sequence[str]] = lambda *_: (),
    ) -> Manifest:
        """Write all parts into the empty directory `artefact`, the manifest last.

        :param file: A file for the embeddings of all passages.
        :param trained: Gives an index that may be used for a number of passages. It is not used if
            it finds fewer of the nearest passages than it did.
        :param also: Writes further files into `artefact`, and gives their names.
        :raises CollectionError: When the corpus is bad.
        :raises InvalidArgumentError: When no document has a facet, or what the boost names.
        :raises StorageError: When the file system refuses.
        """
        store, languages, language = artefact / DOCUMENTS_FILE, Languages(), self.language
        documents = source.documents()
        if language == AUTO:
            documents = languages.counted(documents)
        headings = reads_headings(self.details)
        with closing(
            write_documents(store, documents, source, self.progress, headings=headings)
        ) as corpus:
            if language == AUTO:
                language = words_of(languages.main())
                self.found(languages)
            write_columns(artefact / COLUMNS_FOLDER, corpus.metadata())
            columns = Columns.open(artefact / COLUMNS_FOLDER)
            check_facets(self.facets, columns)
            check_boosts(parse_boosts(self.boost), [columns])
            words = self._begin_words(corpus, artefact, language)
            source.embed(corpus, file, self.progress)
            embeddings = file.rows()
            hybrid = language is not None
            index, details = self._index(corpus, embeddings, trained(len(embeddings)), hybrid)
            index.save(artefact / index.file_name)
            save_array(artefact / PASSAGE_TO_DOCUMENT_FILE, corpus.passage_to_document)
            files = [*index.files, DOCUMENTS_FILE, PASSAGE_TO_DOCUMENT_FILE, *words()]
            files += also(corpus, embeddings)
            files += [f"{COLUMNS_FOLDER}/{name}" for name in COLUMN_FILES]
            details = {
                **self.details,
                "language": language,
                ANALYSIS: self.analysis,
                **({LANGUAGES: shares} if (shares := languages.shares()) else {}),
                **details,
                "facets": [*self.details.get("facets", ())] or file_facets(columns),
            }
            if not self.space.is_cosine:  # a merge keeps it
                details.setdefault("dense_scale", measured_scale(embeddings))
            return describe(artefact, "index", self.space, files, corpus, details)

    def _begin_words(self, corpus: StoredCorpus, artefact: Path, language: str | None) -> Work:
        """Write the lexical index, if there is a language; what gives the names of its files."""
        if language is None:
            return tuple
        work = partial(
            index_words,
            artefact,
            corpus.num_documents,
            language,
            self.analysis,
            headings=corpus.headings,
        )
        if self.beside is not None and language not in PIECES:
            return self.beside(work)
        self.progress.begin("Indexing words", corpus.num_passages)
        names = work(tokenizer=self.space.tokenizer, advance=self.progress.advance)
        return lambda: names

    def _index(
        self,
        corpus: StoredCorpus,
        embeddings: Embeddings,
        trained: Trained | None,
        hybrid: bool,
    ) -> tuple[VectorIndex, dict[str, Any]]:
        """The filled and tuned vector index, and its details."""
        if trained is not None:
            measured = self._fill(trained.index, embeddings, corpus, hybrid=hybrid)
            if measured[FOUND] >= min(trained.found, TARGET) - _NOISE:
                return trained.index, self._details(trained, measured)
        size, dim, vectors = len(embeddings), self.space.dim, self.space.vectors
        factory = self.factory or self.engine.default_factory(size * vectors, dim)
        index = of_vectors(self.engine.create(factory, dim, self.space.metric), vectors)
        self.progress.begin("Training the index", None)
        sample = np.random.default_rng(_SEED).choice(size, index.training_size(size), replace=False)
        taken = np.ascontiguousarray(embeddings[np.sort(sample)])
        index.train(taken, threads=self.threads)
        measured = self._fill(index, embeddings, corpus, hybrid=hybrid)
        new = Trained(index, factory, size, measured[FOUND])
        return index, self._details(new, measured)

    def _details(self, trained: Trained, measured: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **index_details(self.engine, trained.factory, trained.index),
            "recall": measured,
            "training": {"num_passages": trained.num_passages, FOUND: trained.found},
        }

    def _fill(
        self, index: VectorIndex, embeddings: Embeddings, corpus: StoredCorpus, *, hybrid: bool
    ) -> dict[str, Any]:
        """Fill and tune the index; its recall against exact search on other sample queries."""
        size = len(embeddings)
        self.progress.begin("Adding embeddings", size)
        if index.size < size:  # a mapped index is full
            index.reserve(size)
        for start in range(index.size, size, _ADDED_ROWS):
            block = np.ascontiguousarray(embeddings[start : start + _ADDED_ROWS])
            index.add(block, threads=self.threads)
            self.progress.advance(len(block))
        self.progress.begin("Measuring recall", None)
        count = min(_SAMPLE_QUERIES, _SAMPLE_QUERIES_PER_PASSAGE * size)
        queries = self.space.queries(corpus, embeddings, count)
        rows = index.search(queries[0], size)[1]
        if len(rows) != size:
            raise InvalidArgumentError(
                f"this type of index cannot give back all of its {size} passages, which maxP may "
                "need: choose another factory"
            )
        if hybrid:
            index.scores(queries[0], rows[:1])  # refused if the index does not keep its embeddings
        nearest = exact_rows(embeddings, queries, min(100, size), index.metric)
        # Neighbouring queries are of one document, so every other one is held out.
        tune(index, embeddings, queries[::2], nearest[::2])
        others, expected = queries[1::2], nearest[1::2]
        ten = found_rows(index, others, TUNED_CANDIDATES)
        hundred = found_rows(index, others, num_candidates_for(100))
        measured = {
            FOUND: near_recall(index, embeddings, others, expected, ten),
            "recall@10": recall(ten, expected[:, :10]),
            "recall@100": recall(hundred, expected[:, :100]),
        }
        shares = {name: round(share, 4) for name, share in measured.items()}
        return {"num_queries": len(others), **shares}
