"""Where training data come from, as a recipe names it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from retrieval.collections import corpus_files, qrels_path, read_documents
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
                f"{self.corpus or 'a source of training data'}: there must be qrels or triples"
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
        is_name = len(path.parts) == 1 and not is_dataset(path) and not path.exists()
        if is_name and self.queries_path.is_dir():
            return qrels_path(self.queries_path, self.qrels)
        return path

    def document_source(self) -> Corpus:
        """The documents, for a store of passages.

        :raises CollectionError: When there are none.
        """
        path = self.documents_path
        if self.corpus is None:
            return Corpus(str(path), [path], partial(text_triples_documents, path))
        return Corpus(str(path), corpus_files(path), partial(read_documents, path))


def distinct_corpora(sources: Sequence[DataSource]) -> dict[Path, Corpus]:
    """The corpora of `sources` by path, in order, each once."""
    first = {source.documents_path: source for source in reversed(sources)}
    ordered = dict.fromkeys(source.documents_path for source in sources)
    return {path: first[path].document_source() for path in ordered}
