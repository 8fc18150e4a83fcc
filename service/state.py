"""Whether the service answers searches, and with what."""

from dataclasses import dataclass

from retrieval.encoder import OnnxEncoder
from retrieval.searcher import Searcher
from service.problems import NotReadyError

_FINGERPRINT_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Serving:
    """A searcher at work, and the short fingerprint of its index that every answer names."""

    searcher: Searcher
    index: str

    @property
    def precision(self) -> str:
        """The precision at which the query encoder runs."""
        encoder = self.searcher.encoder
        return encoder.precision if isinstance(encoder, OnnxEncoder) else ""


class ServiceState:
    """The one reference to the searcher at work.

    A request takes it once and keeps it to its end, so that exchanging it is atomic.
    """

    def __init__(self, searcher: Searcher | None = None) -> None:
        self.draining = False
        self.current: Serving | None = None
        if searcher is not None:
            self.publish(searcher)

    def publish(self, searcher: Searcher) -> None:
        """Answer with `searcher` from now on."""
        fingerprint = searcher.index_manifest.fingerprint[:_FINGERPRINT_CHARACTERS]
        self.current = Serving(searcher, fingerprint)

    def drain(self) -> None:
        """Take no more searches, for good; those under way finish."""
        self.draining = True

    def serving(self) -> Serving:
        """What to answer a request with.

        :raises NotReadyError: When the index is still loading, or the service is about to stop.
        """
        if self.draining:
            raise NotReadyError("the service is about to stop and takes no more searches")
        if self.current is None:
            raise NotReadyError("the index is still loading")
        return self.current
