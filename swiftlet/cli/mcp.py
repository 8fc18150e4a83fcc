"""`swiftlet mcp`: an index as tools for programs with a language model."""

from typing import Annotated

import typer

from swiftlet.address import ADDRESSES
from swiftlet.cli.options import ServedEncoderOption
from swiftlet.cli.terminal import messages


def mcp(
    place: Annotated[
        str,
        typer.Argument(
            help=f"Index directory, a folder of files, {ADDRESSES}.", metavar="INDEX|FOLDER"
        ),
    ],
    encoder: ServedEncoderOption = None,
    http: Annotated[
        bool, typer.Option("--http", help="Listen on http://HOST:PORT/mcp, instead of stdio.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8001,
) -> None:
    """Serve an index to language models by the Model Context Protocol.

    The index of a folder is that of `swiftlet up`; it follows the folder meanwhile.
    """
    import signal
    from pathlib import Path

    import swiftlet
    from service.listeners import listen
    from swiftlet.extras import extra

    index: str | Path = place
    if Path(place).is_dir() and not (Path(place) / "manifest.json").exists():
        from swiftlet.cli.up import followed
        from swiftlet.encoders.opening import is_asked

        asked = encoder if encoder is not None and is_asked(encoder) else None
        index = followed(Path(place), asked)
    with swiftlet.open(index, encoder=encoder) as searcher:
        with extra("mcp"):
            from swiftlet.integrations.mcp import mcp_server, serve_http
        if http:
            with listen(host, port) as listeners:
                messages.print(f"Tools on http://{host}:{port}/mcp - stop with Ctrl-C")
                serve_http(searcher, host, listeners)
        else:
            # Otherwise Ctrl-C would wait for the next line of input.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            mcp_server(searcher).run("stdio")
