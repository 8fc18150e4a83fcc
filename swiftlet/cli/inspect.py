"""`swiftlet inspect`: prints the manifest of an artefact and verifies its files."""

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from swiftlet import encoders
from swiftlet.cli.terminal import output


def inspect(
    directory: Annotated[
        Path, typer.Argument(help="Index, encoder or training directory, or an encoder that ships.")
    ],
) -> None:
    """Show the manifest of an artefact, and verify its files."""
    from swiftlet.retrieval.changes.log import CHANGES_FILE, Changes
    from swiftlet.retrieval.manifest import read_manifest, verify_files

    directory = encoders.find_shipped(directory)
    manifest = read_manifest(directory)
    shown = {name: value for name, value in manifest.fields().items() if name != "files"}
    output.print_json(json.dumps(shown))
    for name, entry in manifest.files.items():
        digest = f"{entry.algorithm} {entry.digest[:16]}…"
        output.print(f"{name}  {entry.size_bytes:,} bytes  {digest}")
    verify_files(directory, manifest)
    if manifest.kind == "index":
        with closing(Changes(directory, manifest)) as changes:
            count = changes.count()
        if count:
            output.print(f"{CHANGES_FILE}  {count:,} changes since the index was built or merged")
    output.print(f"[green]whole[/]: fingerprint {manifest.fingerprint[:16]}")
