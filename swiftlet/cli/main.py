"""The command line: its commands, and one sentence for every refusal."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import swiftlet
from swiftlet.cli.adapt import adapt
from swiftlet.cli.add import add
from swiftlet.cli.compact import compact
from swiftlet.cli.delete import delete
from swiftlet.cli.demo import demo
from swiftlet.cli.distill import distill
from swiftlet.cli.encode import encode
from swiftlet.cli.encoders import app as encoders
from swiftlet.cli.evaluate import evaluate
from swiftlet.cli.export import export
from swiftlet.cli.export_vectors import export_vectors
from swiftlet.cli.fidelity import fidelity
from swiftlet.cli.index import index
from swiftlet.cli.inspect import inspect
from swiftlet.cli.mcp import mcp
from swiftlet.cli.pull import pull
from swiftlet.cli.push import push
from swiftlet.cli.push_to_hub import push_to_hub
from swiftlet.cli.search import search
from swiftlet.cli.serve import serve
from swiftlet.cli.snapshot import snapshot
from swiftlet.cli.terminal import output, print_refusal
from swiftlet.cli.train import train
from swiftlet.cli.tune import tune
from swiftlet.retrieval.errors import RetrievalError

REFUSED = 2
"""Exit status of a command that was refused."""

INTERRUPTED = 130
"""Exit status of a command that was interrupted by Ctrl-C, as shells give it."""


class _RefusingGroup(TyperGroup):
    """Turns every refusal into one sentence, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except RetrievalError as error:
            print_refusal(str(error))
        except typer.BadParameter as error:
            print_refusal(error.format_message())
        except KeyboardInterrupt as interrupt:
            print_refusal(str(interrupt) or "interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            place = f"{error.filename}: " if error.filename else ""
            print_refusal(f"{place}{error.strerror or error}")
        raise typer.Exit(REFUSED)


app = typer.Typer(
    cls=_RefusingGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Search by meaning and by words on ordinary CPUs.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        output.print(f"swiftlet {swiftlet.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that come before a command."""


# Each command imports its own packages when it runs, so that `search` never waits for torch.
for command in (
    demo, index, encode, search, serve, mcp, add, delete, compact, snapshot, export_vectors, push,
    pull, evaluate, tune, fidelity, adapt, train, distill, export, push_to_hub, inspect,
):  # fmt: skip
    app.command()(command)
app.add_typer(encoders, name="encoders")
