"""Opens an index for searching."""

from swiftlet.arguments import StrPath, path_of, place_of, whole_number
from swiftlet.encoders.encoder import Precision
from swiftlet.encoders.opening import EncoderSpec, encoder_place
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.index.query_encoder import query_encoder_if_any
from swiftlet.search.searcher import Searcher


def open_searcher(
    index: StrPath,
    *,
    encoder: EncoderSpec | None = None,
    precision: Precision | None = None,
    reranker: StrPath | None = None,
    readers: int = 1,
) -> Searcher:
    """Open an index for searching; every file of a directory is verified.

    :param index: A directory, or an address: milvus://HOST:PORT/COLLECTION or
        postgresql://HOST:PORT/DATABASE/TABLE.
    :param encoder: A query encoder of the index's embedding space: a directory or name, a function
        of texts, or an address (docs/encoders.md); None takes the index's own encoder, or the
        encoder that ships for it, or the document encoder's pair. An index that was made of vectors
        alone has none, and finds by embeddings and by words.
    :param precision: The encoder's model; None takes the encoder's default.
    :param reranker: The directory of a re-ranker, for searches with `rerank`.
    :param readers: How many threads will search at once.
    :raises ArtefactError: When the index or the encoder is damaged, or they do not fit together.
    :raises InvalidArgumentError: When an argument is of another type or out of range, or the
        encoder has no model of this precision.
    :raises IndexServerError: When the server of an address does not answer.
    """
    readers = whole_number("readers", readers, least=1)
    place = place_of("index", index)
    found = encoder_place(encoder) or query_encoder_if_any(place)
    loaded = None if reranker is None else OnnxReranker.load(path_of("reranker", reranker))
    return Searcher.open(place, found, precision=precision, reranker=loaded, readers=readers)
