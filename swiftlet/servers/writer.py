"""Puts and deletes documents of an index on a server: what the kinds of servers share."""

from abc import abstractmethod

from typing_extensions import override

from swiftlet.address import Address
from swiftlet.errors import ArtefactError, RetrievalError
from swiftlet.index.updates.writer import Preparation, Writer, encoder_details
from swiftlet.manifest import Manifest


class ServerWriter(Writer):
    """Changes an index on a server. Thread-safe; any number of writers may change it at a time."""

    def __init__(self, address: Address, preparation: Preparation) -> None:
        """Connect to the server.

        :raises IndexServerError: When it does not answer.
        :raises InvalidArgumentError: When there is no such index, or not one of Swiftlet.
        """
        super().__init__(preparation)
        self._closed, self.change = False, 0
        self.place: Address = address

    @override
    def manifest(self) -> Manifest:
        if self._closed:
            raise RetrievalError("the writer is closed: open the index again")
        return self._manifest_now()

    @override
    def close(self) -> None:
        self._closed = True

    @abstractmethod
    def _manifest_now(self) -> Manifest:
        """The manifest that the server has."""

    def _check_fit(self, manifest: Manifest, prepared_for: Manifest) -> None:
        if encoder_details(manifest) != encoder_details(prepared_for):
            raise ArtefactError(f"{self.place} was replaced meanwhile: write once more")
