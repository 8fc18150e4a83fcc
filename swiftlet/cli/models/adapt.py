"""`swiftlet adapt`: adapts a query encoder to an index that is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from swiftlet.cli.options import (
    AllowUnknown,
    IndexDirectory,
    Overwrite,
    RememberedEncoderOption,
    Settings,
    complete_encoder,
)
from swiftlet.cli.terminal import ProgressBars, figures_table, output, print_plain, print_result

if TYPE_CHECKING:
    from swiftlet.evaluation.significance import PairedTest


def adapt(
    index: IndexDirectory,
    out: Annotated[Path, typer.Option(help="Directory of the adapted encoder.")],
    queries: Annotated[
        list[Path] | None,
        typer.Option(
            help="With --qrels, the judged queries; without, a query log, which may be repeated."
        ),
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="BEIR or TREC qrels, to learn from and to test with.")
    ] = None,
    student: Annotated[
        Path | None,
        typer.Option(
            help="The query encoder that is adapted.",
            show_default="the encoder of searches today",
            autocompletion=complete_encoder,
        ),
    ] = None,
    encoder: RememberedEncoderOption = None,
    settings: Settings = None,
    allow_unknown: AllowUnknown = False,
    overwrite: Overwrite = False,
) -> None:
    """Adapt a query encoder to an index; documents stay as they are.

    After an interruption, run the same command to resume it.
    """
    from swiftlet.errors import InvalidArgumentError
    from swiftlet.extras import extra
    from swiftlet.manifest import read_manifest

    read_manifest(index, "index")
    if qrels is not None and len(queries or ()) != 1:
        raise InvalidArgumentError(
            "--qrels judge the queries of one file: pass exactly one --queries"
        )
    with extra("export"):
        from export.encoder_directory import export_encoder
        from swiftlet.encoders.opening import directory_of
        from training.adaptation.index import adapt_to_index
    with ProgressBars() as progress:
        tests = adapt_to_index(
            index,
            out,
            export_encoder,
            queries=queries or [],
            qrels=qrels,
            student=student,
            document_encoder=None if encoder is None else directory_of(encoder),
            settings=settings or [],
            allow_unknown=allow_unknown,
            overwrite=overwrite,
            progress=progress,
        )
    output.print(_table(tests, judged=qrels is not None))
    print_result(out, _verdict(tests, index, out))
    if qrels is None:
        print_plain(
            "Only search by meaning was tested, since sentences have the words of their documents. "
            "Hybrid search can become worse: with judged queries (--queries, --qrels), it is "
            "tested, too."
        )


def _table(tests: "dict[str, PairedTest]", *, judged: bool) -> Table:
    count = next(iter(tests.values())).num_queries
    what = "queries" if judged else "sentences, each a query for its document"
    title = f"nDCG@10 of {count:,} held-out {what}"
    table = figures_table(title, "search", "today", "adapted", "difference", "p")
    for mode, test in tests.items():
        figures = (f"{test.baseline_mean:.4f}", f"{test.mean:.4f}", f"{test.difference:+.4f}")
        table.add_row(mode, *figures, f"{test.p_value:.1g}")
    return table


def _verdict(tests: "dict[str, PairedTest]", index: Path, out: Path) -> str:
    """What to do, by the mode that searches of the index have by default, the first one."""
    from swiftlet.evaluation.significance import SIGNIFICANT

    mode, test = next(iter(tests.items()))
    if test.difference > 0 and test.p_value <= SIGNIFICANT:
        return f"use it, as in: swiftlet serve {index} --encoder {out}"
    return (
        f"keep what you have: {mode} search is not significantly better with it "
        f"(p above {SIGNIFICANT:g})"
        if test.difference > 0
        else f"keep what you have: {mode} search is not better with it"
    )
