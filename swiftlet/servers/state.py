"""What a server keeps of an index beside its passages: the manifest, and how far it was pushed."""

import json
from dataclasses import dataclass

from swiftlet.address import Address
from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import Manifest

COMPLETE, WRONG = "complete", "wrong"
"""States other than a number of passages."""

EXACT_UP_TO = 50_000
"""Up to this many passages, a search compares a query with every embedding."""

LONGEST_SECONDS = 10.0
"""How long a server may take for one call, if no deadline comes first."""


def manifest_text(manifest: Manifest) -> str:
    """The manifest as a server keeps it: all but the files."""
    fields = manifest.fields()
    del fields["files"]
    return json.dumps(fields)


@dataclass(frozen=True, slots=True)
class PushState:
    """The manifest and the source of what is pushed, and how far the push is.

    `state` is `COMPLETE`, `WRONG`, or a number of passages. `width` is the width of the embeddings.
    `index_type` is None if the server has not begun the index yet.
    """

    manifest: str
    source: str
    state: str
    width: int
    index_type: str | None

    def manifest_at(self, address: Address) -> Manifest:
        """The manifest of the index at an address.

        :raises InvalidArgumentError: When it has not been pushed completely, is of a newer format,
            or has embeddings of another width.
        """
        problem = ""
        if self.state == WRONG:
            problem = "has wrong passages: push it again with --overwrite"
        elif self.state != COMPLETE:
            problem = (
                f"is not complete ({int(self.state):,} passages written): run the same swiftlet "
                "push again, which goes on"
            )
        if problem:
            raise InvalidArgumentError(f"{address} {problem}")
        try:
            manifest = Manifest.parse({**json.loads(self.manifest), "files": {}})
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidArgumentError(
                f"{address} was made by another version of Swiftlet: {error}"
            ) from error
        if self.width != manifest.dim:
            raise InvalidArgumentError(
                f"{address} has embeddings of {self.width} numbers, but its manifest says "
                f"{manifest.dim}: push the index again with --overwrite"
            )
        return manifest
