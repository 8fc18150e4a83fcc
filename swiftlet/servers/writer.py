"""Puts and deletes documents of an index on a server: what the kinds of servers share."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from typing_extensions import override

from swiftlet.address import Address
from swiftlet.errors import ArtefactError, IndexServerError, RetrievalError
from swiftlet.index.updates.writer import Changed, Preparation, Writer, checked_ids, encoder_details
from swiftlet.manifest import Manifest


class Batch:
    """What becomes of a batch; once it `is_sent`, the server may have written it."""

    is_sent = False


@contextmanager
def told() -> Iterator[Batch]:
    """Have the error of a server say whether the batch was written.

    :raises IndexServerError: When the block does.
    """
    batch = Batch()
    try:
        yield batch
    except IndexServerError as error:
        what = (
            "it is not known whether this batch is written: write it again"
            if batch.is_sent
            else "nothing of this batch is written"
        )
        raise type(error)(f"{error}; {what}") from error


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
        with told():
            return self._manifest_now()

    @override
    def delete(self, document_ids: Iterable[str]) -> Changed:
        ids = checked_ids(document_ids)
        gone = self._delete(ids)
        return Changed(len(gone), self.change, tuple(each for each in ids if each not in gone))

    @override
    def close(self) -> None:
        self._closed = True

    @abstractmethod
    def _manifest_now(self) -> Manifest:
        """The manifest that the server has."""

    @abstractmethod
    def _delete(self, document_ids: Sequence[str]) -> Collection[str]:
        """Delete those documents that exist; returns their ids."""

    def _check_fit(self, manifest: Manifest, prepared_for: Manifest) -> None:
        if encoder_details(manifest) != encoder_details(prepared_for):
            raise ArtefactError(f"{self.place} was replaced meanwhile: write once more")
