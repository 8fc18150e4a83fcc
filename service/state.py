"""Whether the service answers searches, and with what."""

from dataclasses import dataclass

from retrieval.encoder import OnnxEncoder
from retrieval.searcher import Searcher
from service.problems import NotReadyError
from service.query_cache import QueryCache

_FINGERPRINT_CHARACTERS = 16


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Serving:
    """A searcher at work, the short fingerprint of its index, and its queries' embeddings.

    Whoever searches holds it to the end of the search; so an exchange is atomic, and its last
    reference goes when nothing of the searcher is in use any more.
    """

    searcher: Searcher
    index: str
    cache: QueryCache | None

    @property
    def precision(self) -> str:
        """The precision at which the query encoder runs."""
        encoder = self.searcher.encoder
        return encoder.precision if isinstance(encoder, OnnxEncoder) else ""


class ServiceState:
    """The one reference to the searcher at work."""

    def __init__(self, searcher: Searcher | None = None, *, cache_bytes: int = 0) -> None:
        """Begin with `searcher`, if it is there; embeddings of queries take up `cache_bytes`."""
        self.draining = False
        self.current: Serving | None = None
        self._cache_bytes = cache_bytes
        if searcher is not None:
            self.publish(searcher)

    def publish(self, searcher: Searcher) -> Serving:
        """Answer with `searcher` from now on."""
        fingerprint = searcher.index_manifest.fingerprint[:_FINGERPRINT_CHARACTERS]
        # A new one each time, so that no embedding outlives the encoder that made it.
        cache = QueryCache(self._cache_bytes) if self._cache_bytes else None
        self.current = serving = Serving(searcher, fingerprint, cache)
        return serving

    def drain(self) -> None:
        """Take no more searches, for good; those under way finish."""
        self.draining = True

    def check(self) -> None:
        """Refuse a request that has just come, if it cannot be answered.

        :raises NotReadyError: When the index is still loading, or the service is about to stop.
        """
        if self.draining:
            raise NotReadyError("the service is about to stop and takes no more searches")
        if self.current is None:
            raise NotReadyError("the index is still loading")

    @property
    def serving(self) -> Serving:
        """What to answer a request with that was checked: ask when all of it has come.

        A client that takes its time with the body would hold on to an earlier searcher otherwise.
        """
        assert self.current is not None  # noqa: S101 - checked
        return self.current
