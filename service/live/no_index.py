"""What stands in the place of a searcher where an encoder is served without an index."""

from math import inf

from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.reranker import Reranker
from swiftlet.manifest import Manifest
from swiftlet.search.searcher import Searcher

NO_INDEX = (
    "this service has no index at this address: GET /indexes names those of SWIFTLET_INDEXES, if "
    "it is set; else start the service by swiftlet serve INDEX, or set SWIFTLET_INDEX"
)


class NoIndex(Searcher):
    """An encoder and perhaps a re-ranker; routes that search must not be there."""

    generation = ""
    num_documents = num_passages = 0
    seconds_between_looks = inf

    def __init__(self, encoder: ModelEncoder, reranker: Reranker | None = None) -> None:
        self.encoder, self.encoder_manifest, self.reranker = encoder, encoder.manifest, reranker
        self.index_manifest = Manifest("index", encoder.dim, encoder.embedding_space, {}, "")

    @property
    def waiting_seconds(self) -> float:
        """About how long an embedding waits for another machine."""
        return getattr(self.encoder, "waiting_seconds", 0.0)

    def rest(self) -> None:
        """There is nothing to close."""

    def close(self) -> None:
        """There is nothing to close."""

    def __repr__(self) -> str:
        return f"NoIndex({self.encoder!r})"
