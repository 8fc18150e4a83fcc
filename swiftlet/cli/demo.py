"""The demo: the documentation of the Python standard library, indexed and served."""

import json
import os
import secrets
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer
from rich.markup import escape

from swiftlet import encoders
from swiftlet.cli.options import ServedEncoderOption
from swiftlet.cli.terminal import ProgressBars, messages, output, print_note

EXAMPLE_QUERIES = (
    "run a function in several processes",
    "split a path into folder and file name",
    "the most common elements of a list",
)
_SHOWN_HITS = 3
_TIMEOUT_SECONDS = 10


def demo(
    directory: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the demo's index.", show_default="the user's cache folder"
        ),
    ] = None,
    encoder: ServedEncoderOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8080,
) -> None:
    """Index the Python standard library's documentation and serve it."""
    from service.listeners import listen
    from service.server import serve
    from service.settings import load_settings
    from swiftlet.demo import FACETS, NAME, read_standard_library
    from swiftlet.encoders.encoder import OnnxEncoder
    from swiftlet.encoders.opening import directory_of
    from swiftlet.index.building.build import build
    from swiftlet.index.lexical import DEFAULT_LANGUAGE
    from swiftlet.manifest import check_embedding_spaces, read_manifest

    index = (directory or encoders.user_cache() / "demo") / NAME
    # Those who set keys have one to write with.
    write_key = None if os.environ.get("SWIFTLET_WRITE_KEYS") else secrets.token_urlsafe()
    settings = load_settings(
        index=index,
        encoder=encoder,
        host=host,
        port=port,
        log_level="warning",
        write_keys=write_key,
        workers=1,
    )
    # A port in use and a wrong encoder are refused before the index is built.
    with listen(host, port):
        document_encoder = read_manifest(encoders.DEFAULT_ENCODER, "encoder")
        wanted = settings.encoder or encoders.DEFAULT_QUERY_ENCODER
        query_encoder = OnnxEncoder.load(directory_of(wanted), role="query")
        check_embedding_spaces(query_encoder.manifest, document_encoder)
    if not _is_current(index):
        messages.print("Indexing the documentation of the Python standard library")
        with ProgressBars() as progress:
            documents = read_standard_library()
            build(
                documents,
                index,
                language=DEFAULT_LANGUAGE,
                facets=FACETS,
                overwrite=True,
                progress=progress,
            )
    serve(
        settings,
        on_ready=lambda address: Thread(
            target=_show, args=(address, write_key), daemon=True
        ).start(),
    )


def _is_current(index: Path) -> bool:
    """Whether `index` is made by this version and the encoder that ships, as it is made now."""
    from swiftlet.demo import FACETS
    from swiftlet.errors import ArtefactError
    from swiftlet.index.lexical import DEFAULT_LANGUAGE
    from swiftlet.index.lexical.analysis import ANALYSIS, VERSION
    from swiftlet.index.vectors.faiss_index import FaissIndex
    from swiftlet.manifest import read_manifest

    try:
        manifest = read_manifest(index, "index")
    except ArtefactError:
        return False
    encoder = read_manifest(encoders.DEFAULT_ENCODER, "encoder").fingerprint
    factory = FaissIndex.default_factory(manifest.details.get("num_passages", 0), manifest.dim)
    wanted = {
        "encoder_fingerprint": encoder, "factory": factory, "language": DEFAULT_LANGUAGE,
        ANALYSIS: VERSION,
        "facets": list(FACETS),
    }  # fmt: skip
    made_now = manifest.created_by == f"swiftlet {version('swiftlet-retrieval')}"
    return made_now and wanted.items() <= manifest.details.items()


def _show(address: str, write_key: str | None) -> None:
    """Send the example queries to the service and print its answers."""
    from urllib.parse import urlencode
    from urllib.request import ProxyHandler, build_opener

    # Not through a proxy: it could not reach this machine's own address.
    opener = build_opener(ProxyHandler({}))
    output.print(f"\nServing on [bold cyan]{address}[/] - stop with Ctrl-C\n")
    if write_key is not None:
        link = f"{address}/#write={write_key}"
        output.print(f"To add text files of your own:\n  [dim]{link}[/]\n", soft_wrap=True)
    for query in EXAMPLE_QUERIES:
        url = f"{address}/search?{urlencode({'q': query, 'top_k': _SHOWN_HITS})}"
        try:
            with opener.open(url, timeout=_TIMEOUT_SECONDS) as answer:
                hits = json.load(answer)["hits"]
        except OSError as error:  # for example when the service stops in between
            print_note(f"{url} gives no answer: {error}")
            return
        output.print(f"[bold]{query}[/]\n  [dim]{url}[/]", soft_wrap=True)
        for hit in hits:
            passage = hit["passage"]["text"].strip().splitlines()
            output.print(
                f"  [green]{hit['score']:.3f}[/]  [cyan]{hit['document_id']:<32}[/] "
                f"{escape(passage[0] if passage else hit['title'])}",
                no_wrap=True,
                overflow="ellipsis",
            )
        output.print()
    output.print("To search a folder of your own: [dim]swiftlet up FOLDER[/]")
