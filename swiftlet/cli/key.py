"""`swiftlet key`: a key for clients of a service, in a file of keys."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.options import filter_of
from swiftlet.cli.terminal import output, print_note


def key(
    file: Annotated[
        Path, typer.Argument(help="The file of SWIFTLET_KEYS; it may be new.", metavar="FILE")
    ],
    name: Annotated[str, typer.Option(help="Whom the key is for, as refusals and logs name it.")],
    right: Annotated[
        list[str] | None,
        typer.Option(
            help="The routes that it opens: search, write or admin; may be repeated.",
            show_default="search",
        ),
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(
            help="An index of SWIFTLET_INDEXES, or . for SWIFTLET_INDEX; may be repeated.",
            show_default="all",
        ),
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter",
            help="Only documents that pass it exist for this key: 'tenant=a'.",
            show_default="none",
        ),
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Requests a minute.", show_default="no limit")
    ] = None,
    bytes_per_minute: Annotated[
        int | None,
        typer.Option(min=1, help="Bytes of bodies and answers a minute.", show_default="no limit"),
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(help="From then on it opens nothing (UTC).", show_default="never"),
    ] = None,
) -> None:
    """Make a key and print it. Its rights and its hash, not the key, are appended to a file."""
    from service.wire.rights import add_key

    secret = add_key(
        file,
        name,
        rights=right,
        indexes=index,
        filter=filter_of(filter_),
        requests_per_minute=requests_per_minute,
        bytes_per_minute=bytes_per_minute,
        expires=None if expires is None else expires.isoformat(),
    )
    output.print(secret, soft_wrap=True)
    print_note(
        f"{file} has only the hash of this key: keep the key now. A service with "
        f"SWIFTLET_KEYS={file} accepts it within a second; without its line, it no longer does."
    )
