"""`swiftlet serve`: the HTTP service."""

from typing import Annotated

import typer

from swiftlet.address import ADDRESSES
from swiftlet.cli.options import PrecisionOption, RerankerOption, ServedEncoderOption


def serve(
    index: Annotated[
        str | None,
        typer.Argument(
            help=f"Index directory, {ADDRESSES}.",
            show_default="SWIFTLET_INDEX",
            metavar="INDEX",
        ),
    ] = None,
    encoder: ServedEncoderOption = None,
    precision: PrecisionOption = None,
    reranker: RerankerOption = None,
    host: Annotated[
        str | None,
        typer.Option(help="Addresses to listen on, with commas.", show_default="127.0.0.1"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 takes a free one.", show_default="8000")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that answer at this port.", show_default="the cores", metavar="N"
        ),
    ] = None,
) -> None:
    """Serve an index over HTTP, or with --encoder alone its embeddings.

    Every SWIFTLET_* variable is in docs/settings.md.
    """
    from service.server import serve as run
    from service.settings import load_settings

    settings = load_settings(
        index=index,
        encoder=encoder,
        precision=precision,
        reranker=reranker,
        host=host,
        port=port,
        workers=workers,
    )
    run(settings)
