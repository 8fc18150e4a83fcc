"""Where training data come from, as a recipe names it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from retrieval.collections import corpus_files, qrels_path, read_documents
from retrieval.errors import CollectionError
from retrieval.irds import is_dataset
from training.errors import TrainingDataError
from training.passages import Corpus
from training.triples import text_triples_documents


@dataclass(frozen=True, slots=True)
class DataSource:
    """Queries with documents that are relevant to them.

    `corpus` and `queries` are what `read_documents` and `read_queries` take; the queries are by
    default where the corpus is. `qrels` is the name of a split of the BEIR folder `queries`, a
    file, or `irds:NAME`. `triples` is a file of MS MARCO's triples, plain or gzipped: of ids, or,
    where there is no corpus, of texts. With both, pairs are the triples', and the qrels say what
    else is relevant.

    :raises TrainingDataError: When it is none of these combinations.
    """

    corpus: str | None = None
    queries: str | None = None
    qrels: str | None = None
    triples: str | None = None

    def __post_init__(self) -> None:
        if self.corpus is None and (self.queries or self.qrels):
            raise TrainingDataError(
                f"{self.queries or self.qrels}: queries and qrels need the corpus they belong to"
            )
        if self.qrels is None and self.triples is None:
            raise TrainingDataError(
                f"{self.corpus}: a corpus needs qrels or triples"
                if self.corpus
                else "a source needs corpus and qrels, or triples"
            )

    @property
    def documents_path(self) -> Path:
        """Where the documents are: the corpus, or else the text triples."""
        return Path(self.corpus or self.triples or "")

    @property
    def queries_path(self) -> Path:
        """Where the queries are."""
        return Path(self.queries or self.corpus or self.triples or "")

    def qrels_path(self) -> Path | None:
        """Where the qrels are, if there are any.

        :raises CollectionError: When a BEIR folder has no such split; lists those that it has.
        """
        if self.qrels is None:
            return None
        path = Path(self.qrels)
        if len(path.parts) > 1 or is_dataset(path) or not self.queries_path.is_dir():
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
        if self.corpus is None:
            return Corpus(str(path), [path], partial(text_triples_documents, path))
        return Corpus(str(path), corpus_files(path), partial(read_documents, path))


def distinct_corpora(sources: Sequence[DataSource]) -> dict[Path, Corpus]:
    """The corpora of `sources` by their `place`, in order, each once."""
    first: dict[Path, DataSource] = {}
    for source in sources:
        first.setdefault(place(source.documents_path), source)
    return {path: source.document_source() for path, source in first.items()}


def place(path: Path) -> Path:
    """Where `path` leads, however it is written; a dataset's name stays as it is."""
    return path if is_dataset(path) else path.resolve()
