"""`swiftlet inspect`: prints the manifest of an artefact and verifies its files."""

import json
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from swiftlet import encoders
from swiftlet.cli.terminal import count, messages, output

if TYPE_CHECKING:
    from swiftlet.address import Address
    from swiftlet.manifest import Manifest

_OUTDATED = (
    "The words of this index are of version 1 of the analysis, which an earlier Swiftlet wrote: "
    "accents and forms of Unicode may matter. Build it again to change that; its embeddings stay."
)


def inspect(
    place: Annotated[
        str,
        typer.Argument(
            help="Index, encoder or training directory, an encoder that ships, or an address on "
            "a server.",
            metavar="PLACE",
        ),
    ],
) -> None:
    """Show the manifest of an artefact, and verify its files."""
    from swiftlet.address import Address
    from swiftlet.arguments import place_of
    from swiftlet.index.changes.log import CHANGES_FILE, Changes
    from swiftlet.index.lexical.analysis import outdated
    from swiftlet.manifest import read_manifest, verify_files

    found = place_of("place", place)
    if isinstance(found, Address):
        _show_collection(found)
        return
    directory = encoders.find_shipped(found)
    manifest = read_manifest(directory)
    _show(manifest)
    for name, entry in manifest.files.items():
        digest = f"{entry.algorithm} {entry.digest[:16]}…"
        output.print(f"{name}  {entry.size_bytes:,} bytes  {digest}")
    verify_files(directory, manifest)
    if manifest.kind == "index":
        with closing(Changes(directory, manifest)) as changes:
            number = changes.count()
        if number:
            output.print(f"{CHANGES_FILE}  {number:,} changes since the index was built or merged")
        if outdated(manifest.details):
            messages.print(_OUTDATED, soft_wrap=True)
    output.print(f"[green]whole[/]: fingerprint {manifest.fingerprint[:16]}")


def _show(manifest: "Manifest") -> None:
    """Print all of a manifest but the files."""
    fields = {name: value for name, value in manifest.fields().items() if name != "files"}
    output.print_json(json.dumps(fields))


def _show_collection(address: "Address") -> None:
    """Print the manifest of a collection, how much it has, and how it is searched."""
    from swiftlet.index.server import server_at

    found = server_at(address).description(address)
    _show(found.manifest)
    modes = "by meaning and by words" if found.has_words else "by meaning alone"
    lists = "compares every passage"
    for name, value in found.visited.items():
        lists = f"visits {value:,} {name}"
    documents, passages = found.num_documents, found.num_passages
    output.print(f"{count(documents, 'document')}, {count(passages, 'passage')}")
    output.print(
        f"[green]complete[/]: searched {modes}; a search by meaning {lists}", soft_wrap=True
    )
