"""The sources of training data that a recipe names."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

from pydantic import model_validator

from swiftlet.corpora.collections import corpus_files, read_documents
from swiftlet.corpora.irds import is_dataset
from swiftlet.corpora.trec import qrels_path
from swiftlet.errors import CollectionError
from training.data.passages import Corpus
from training.tables import Count, Table


class DataSource(Table):
    """[[data]]: queries with documents that are relevant to them.

    `corpus` is a corpus as for `swiftlet index`, or `irds:NAME`. `queries` is the path of the
    queries, by default the path of the corpus. `qrels` is the name of a split of the BEIR folder
    `queries`, a file, or `irds:NAME`. `triples` is a file of MS MARCO's triples of ids, plain or
    gzipped. With triples and qrels, the triples give the pairs, and the qrels give further relevant
    documents. A document is relevant if its grade is at least `relevant_from`; a lower grade counts
    as 0.
    """

    corpus: str
    queries: str | None = None
    qrels: str | None = None
    triples: str | None = None
    relevant_from: Count = 1

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.qrels is None and self.triples is None:
            raise ValueError(f"{self.corpus}: a corpus needs qrels or triples")
        return self

    @property
    def documents_path(self) -> Path:
        """The path of the documents."""
        return Path(self.corpus)

    @property
    def queries_path(self) -> Path:
        """The path of the queries."""
        return Path(self.queries or self.corpus)

    def qrels_path(self) -> Path | None:
        """The path of the qrels, if there are any.

        :raises CollectionError: When a BEIR folder has no such split, or there is no such file; the
            message lists the splits.
        """
        if self.qrels is None:
            return None
        path = Path(self.qrels)
        if len(path.parts) > 1 or is_dataset(path):
            return path
        if not self.queries_path.is_dir():
            if not path.is_file() and not path.suffix:
                raise CollectionError(
                    self.queries_path,
                    f"it is a file without splits, so qrels {self.qrels!r} must be a file, too",
                )
            return path
        try:
            return qrels_path(self.queries_path, self.qrels)
        except CollectionError:
            if path.is_file():
                return path
            raise

    def document_source(self) -> Corpus:
        """The documents, for a store of passages.

        :raises CollectionError: When there are none.
        """
        path = self.documents_path
        return Corpus(str(path), corpus_files(path), partial(read_documents, path))


def distinct_corpora(sources: Sequence[DataSource]) -> dict[Path, Corpus]:
    """The corpora of `sources` by their resolved path, in order, each once."""
    first: dict[Path, DataSource] = {}
    for source in sources:
        first.setdefault(resolved(source.documents_path), source)
    return {path: source.document_source() for path, source in first.items()}


def resolved(path: Path) -> Path:
    """The absolute path without links. The name of a dataset is returned as it is."""
    return path if is_dataset(path) else path.resolve()
