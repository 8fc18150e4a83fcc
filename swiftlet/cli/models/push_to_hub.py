"""`swiftlet push-to-hub`: an encoder or a re-ranker to the Hugging Face hub."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.terminal import output


def push_to_hub(
    directory: Annotated[
        Path,
        typer.Argument(
            help="An encoder or a re-ranker: of an export, or of a training run.",
            metavar="DIRECTORY",
        ),
    ],
    name: Annotated[str, typer.Argument(help="Its name on the hub.", metavar="OWNER/NAME")],
    private: Annotated[
        bool, typer.Option("--private", help="Only the owner may see a new model.")
    ] = False,
) -> None:
    """Upload an encoder or a re-ranker to the Hugging Face hub.

    The access token comes from `hf auth login` or HF_TOKEN.
    """
    from swiftlet.encoders import hub

    address = hub.push_to_hub(directory, name, private=private)
    output.print(f"Uploaded to {address}", markup=False, soft_wrap=True)
