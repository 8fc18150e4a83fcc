"""What a server keeps of an index beside its passages: the manifest, and how far it was pushed."""

import json

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


def manifest_in(address: Address, state: str, text: str, width: int) -> Manifest:
    """The manifest that `manifest_text` wrote, of an index with embeddings of this width.

    :raises InvalidArgumentError: When it has not been pushed completely, is of a newer format, or
        has embeddings of another width.
    """
    if state == WRONG:
        raise InvalidArgumentError(f"{address} has wrong passages: push it again with --overwrite")
    if state != COMPLETE:
        raise InvalidArgumentError(
            f"{address} is not complete ({int(state):,} passages written): run the same swiftlet "
            "push again, which goes on"
        )
    try:
        manifest = Manifest(files={}, **json.loads(text))
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(
            f"{address} was made by another version of Swiftlet: {error}"
        ) from error
    if width != manifest.dim:
        raise InvalidArgumentError(
            f"{address} has embeddings of {width} numbers, but its manifest says {manifest.dim}: "
            "push the index again with --overwrite"
        )
    return manifest
