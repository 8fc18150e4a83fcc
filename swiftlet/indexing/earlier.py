"""The embeddings of an earlier index, which a build takes for passages that are as before."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swiftlet.indexing.contents import Contents
from swiftlet.indexing.document_writer import StoredCorpus
from swiftlet.indexing.embeddings_file import EmbeddingsFile
from swiftlet.retrieval.changes.log import Changes
from swiftlet.retrieval.encoder import Encoder, OnnxEncoder
from swiftlet.retrieval.encoding import encode_batches
from swiftlet.retrieval.errors import ArtefactError, InvalidArgumentError
from swiftlet.retrieval.manifest import Manifest, load_manifest
from swiftlet.retrieval.passages import encoder_text
from swiftlet.retrieval.types import Embeddings

_BLOCK_ROWS = 32


class EarlierEmbeddings:
    """The embeddings of the passages of an index, by the texts that the encoder reads."""

    def __init__(self, index: Path, manifest: Manifest, file: EmbeddingsFile) -> None:
        """Copy the embeddings of the index, as precise as it keeps them, into an empty `file`.

        :raises ArtefactError: When the index is damaged.
        :raises InvalidArgumentError: When its engine does not keep embeddings, or it is empty.
        """
        changes = Changes(index, manifest)
        last = changes.last()
        changes.close()
        contents = Contents(index, manifest, last)
        hashes = _hashes(
            encoder_text(document.title, document.text[start:end])
            for document in contents.documents()
            for start, end in document.passages
        )
        if not len(hashes):
            raise InvalidArgumentError(f"{index} has no passages")
        for _ in file.append(contents.embeddings()):
            pass
        self._order = np.argsort(hashes, kind="stable")
        self._hashes, self._embeddings = hashes[self._order], file.rows()
        file.path.unlink()  # the mapped rows stay

    def complete(
        self, corpus: StoredCorpus, first_row: int, encoder: Encoder, threads: int
    ) -> tuple[int, Iterator[Embeddings]]:
        """The number of passages from `first_row` on that are as before, and all embeddings.

        The embeddings (n, width) come in blocks; `encoder` makes those of the other passages.
        """
        hashes = _hashes(corpus.encoder_texts(first_row))
        places = np.searchsorted(self._hashes, hashes)
        places[places == len(self._hashes)] = 0
        known, rows = self._hashes[places] == hashes, self._order[places]
        others = compress(corpus.encoder_texts(first_row), ~known)

        def blocks() -> Iterator[Embeddings]:
            encoded = chain.from_iterable(encode_batches(encoder, others, threads))
            for start in range(0, len(rows), _BLOCK_ROWS):
                block = self._embeddings[rows[start : start + _BLOCK_ROWS]]
                for place in np.flatnonzero(~known[start : start + _BLOCK_ROWS]):
                    block[place] = next(encoded)
                yield block

        return int(np.count_nonzero(known)), blocks()


def earlier_embeddings(
    index: Path, encoder: OnnxEncoder, file: EmbeddingsFile
) -> EarlierEmbeddings | None:
    """The embeddings of `index`, if there is one that this encoder has encoded.

    :param file: Where they are copied to.
    """
    file.path.unlink(missing_ok=True)
    with suppress(ArtefactError, InvalidArgumentError):
        manifest = load_manifest(index, "index")
        made_by = manifest.details["encoder_fingerprint"], manifest.details["precision"]
        if made_by == (encoder.manifest.fingerprint, encoder.precision):
            return EarlierEmbeddings(index, manifest, file)
    return None


def _hashes(texts: Iterable[str]) -> NDArray[np.uint64]:
    """64 bits of a hash of each text, (n,)."""
    digests = (blake2b(text.encode(errors="surrogatepass"), digest_size=8) for text in texts)
    return np.fromiter((int.from_bytes(each.digest()) for each in digests), np.uint64)
