"""The command line: its commands, and one sentence for every refusal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

import swiftlet
from swiftlet.cli.demo import demo
from swiftlet.cli.indexes.adopt import adopt
from swiftlet.cli.indexes.changes import add, compact, delete, repair
from swiftlet.cli.indexes.copies import export_vectors, pull, push, snapshot
from swiftlet.cli.indexes.index import index
from swiftlet.cli.indexes.sync import sync
from swiftlet.cli.indexes.synonyms import synonyms
from swiftlet.cli.indexes.tune import tune
from swiftlet.cli.inspect import inspect
from swiftlet.cli.install import install
from swiftlet.cli.key import key
from swiftlet.cli.mcp import mcp
from swiftlet.cli.models.adapt import adapt
from swiftlet.cli.models.distill import distill
from swiftlet.cli.models.encode import encode
from swiftlet.cli.models.export import app as export
from swiftlet.cli.models.fidelity import fidelity
from swiftlet.cli.models.hub import app as encoders
from swiftlet.cli.models.train import train
from swiftlet.cli.quality.compare import compare
from swiftlet.cli.quality.evaluate import evaluate
from swiftlet.cli.quality.improve import improve
from swiftlet.cli.quality.judge import judge
from swiftlet.cli.quality.report import report
from swiftlet.cli.quality.table import table
from swiftlet.cli.search import search
from swiftlet.cli.serve import serve
from swiftlet.cli.terminal import messages, output, print_refusal
from swiftlet.cli.up import up
from swiftlet.errors import RetrievalError

REFUSED = 2
"""Exit status of a command that was refused."""

_EXPECTED = {
    "int": "a whole number",
    "int range": "a whole number",
    "float": "a number",
    "float range": "a number",
}
"""What the values of an option are, by the name that Typer has for their type."""

INTERRUPTED = 130
"""Exit status of a command that was interrupted by Ctrl-C, as shells give it."""


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn every refusal into one sentence, without a traceback."""
    try:
        yield
    except RetrievalError as error:
        print_refusal(str(error))
    except TyperException as error:
        # It is empty if there was no argument at all: then the help has been printed.
        sentence = error.format_message()
        for type_name, expected in _EXPECTED.items():
            sentence = sentence.replace(f"a valid {type_name}.", f"{expected}.")
        if sentence:
            print_refusal(sentence)
            _print_usage(getattr(error, "ctx", None))
    except KeyboardInterrupt as interrupt:
        print_refusal(str(interrupt) or "interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        place = f"{error.filename}: " if error.filename else ""
        print_refusal(f"{place}{error.strerror or error}")
    else:
        return
    raise typer.Exit(REFUSED)


def _print_usage(context: typer.Context | None) -> None:
    """Print an example of the command that was called wrongly, and where its help is."""
    if context is None:
        return
    if context.command.epilog:
        messages.print(context.command.epilog, markup=False, soft_wrap=True)
    messages.print(f"Help: {context.command_path} --help", markup=False, soft_wrap=True)


class _RefusingGroup(TyperGroup):
    """Refuses wrong arguments before a command and in it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _refusing():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _refusing():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_RefusingGroup,
    no_args_is_help=True,
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


_EXAMPLES: dict[Callable[..., None], str] = {
    up: "swiftlet up notes/",
    demo: "swiftlet demo",
    index: "swiftlet index docs/ --out index",
    adopt: "swiftlet adopt vectors.faiss --texts texts.jsonl --out index",
    encode: "swiftlet encode docs/ --shard 1/2 --out shards/1",
    search: "swiftlet search index 'how do volcanoes erupt?'",
    serve: "swiftlet serve index --port 8080",
    key: "swiftlet key keys.jsonl --name shop --filter 'tenant=shop'",
    mcp: "swiftlet mcp index",
    install: "swiftlet install index",
    add: "swiftlet add index more.jsonl",
    delete: "swiftlet delete index 'notes/old.md'",
    compact: "swiftlet compact index",
    sync: "swiftlet sync index notes/ --watch",
    repair: "swiftlet repair index",
    snapshot: "swiftlet snapshot index --out index.tar",
    export_vectors: "swiftlet export-vectors index --out vectors.parquet",
    push: "swiftlet push index --to SCHEME://HOST:PORT/NAME",
    pull: "swiftlet pull SCHEME://HOST:PORT/NAME --out index",
    evaluate: "swiftlet evaluate index --queries queries.jsonl --qrels qrels.tsv",
    compare: "swiftlet compare index FIRST SECOND --queries queries.jsonl",
    report: "swiftlet report index --log queries/",
    judge: "swiftlet judge judgements/ --index index --log queries/",
    improve: "swiftlet improve index --judgements judgements/ --out better",
    table: "swiftlet table first.run second.run --qrels qrels.tsv",
    tune: "swiftlet tune index --queries queries.jsonl --qrels qrels.tsv",
    synonyms: "swiftlet synonyms index synonyms.txt",
    fidelity: "swiftlet fidelity index",
    adapt: "swiftlet adapt index --out encoder",
    train: "swiftlet train recipe.toml --out run",
    distill: "swiftlet distill --teacher model/ --student lookup --queries queries.txt --out run",
    inspect: "swiftlet inspect index",
}
# Each command imports its own packages when it runs, so that `search` never waits for torch.
for command, example in _EXAMPLES.items():
    app.command(epilog=f"Example: {example}")(command)
app.add_typer(export, name="export")
app.add_typer(encoders, name="encoders")
