"""Earlier embeddings, which a build takes for passages that are as before."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swiftlet.encoders.encoder import Encoder, OnnxEncoder
from swiftlet.encoders.encoding import encode_batches
from swiftlet.errors import ArtefactError, InvalidArgumentError
from swiftlet.index.changes.log import Changes
from swiftlet.index.contents import Contents
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.documents.writer import StoredCorpus
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.manifest import load_manifest
from swiftlet.types import Embeddings

_BLOCK_ROWS = 32


Hashes = NDArray[np.uint64]


class EarlierEmbeddings:
    """Embeddings that were made before, by the texts that the encoder read."""

    def __init__(self, hashes: Hashes, embeddings: Embeddings) -> None:
        """Take the `hashes_of` texts, (n,), and their embeddings (n, width)."""
        self._order = np.argsort(hashes, kind="stable")
        self._hashes, self._embeddings = hashes[self._order], embeddings

    def complete(
        self, corpus: StoredCorpus, first_row: int, encoder: Encoder, threads: int
    ) -> tuple[int, Iterator[Embeddings]]:
        """The number of passages from `first_row` on that are as before, and all embeddings.

        The embeddings (n, width) come in blocks; `encoder` embeds the other passages.
        """
        hashes = hashes_of(corpus.encoder_texts(first_row))
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
    file: EmbeddingsFile, hashes: Hashes, index: Path | None, encoder: OnnxEncoder
) -> EarlierEmbeddings | None:
    """The embeddings in `file`, and of an index that this encoder has made; None without any.

    :param hashes: The `hashes_of` the texts of the embeddings in the file.
    :param index: Its embeddings, as precise as it keeps them, are appended to the file.
    """
    if index is not None:
        with suppress(ArtefactError, InvalidArgumentError):
            hashes = np.concatenate([hashes, _copied(index, file, encoder)])
    if not len(hashes):
        file.path.unlink(missing_ok=True)
        return None
    embeddings = file.rows()[: len(hashes)]
    file.path.unlink()  # the mapped rows stay
    return EarlierEmbeddings(hashes, embeddings)


def hashes_of(texts: Iterable[str]) -> Hashes:
    """64 bits of a hash of each text, (n,)."""
    digests = (blake2b(text.encode(errors="surrogatepass"), digest_size=8) for text in texts)
    return np.fromiter((int.from_bytes(each.digest()) for each in digests), np.uint64)


def _copied(index: Path, file: EmbeddingsFile, encoder: OnnxEncoder) -> Hashes:
    """The hashes of the texts of an index, whose embeddings are appended to the file.

    :raises ArtefactError: When the index is damaged.
    :raises InvalidArgumentError: When its engine does not keep embeddings.
    """
    manifest = load_manifest(index, "index")
    made_by = manifest.details["encoder_fingerprint"], manifest.details["precision"]
    if made_by != (encoder.manifest.fingerprint, encoder.precision):
        return np.empty(0, np.uint64)
    changes = Changes(index, manifest)
    last = changes.last()
    changes.close()
    contents = Contents(index, manifest, last)
    hashes = hashes_of(
        encoder_text(document.title, document.text[start:end])
        for document in contents.documents()
        for start, end in document.passages
    )
    if len(hashes):
        for _ in file.append(contents.embeddings()):
            pass
    return hashes
