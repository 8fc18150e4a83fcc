"""`swiftlet adopt`: vectors that were made elsewhere to an index directory."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from swiftlet.cli.fields import BUILT, parameters, takes
from swiftlet.cli.options import Overwrite, encoder_option
from swiftlet.cli.terminal import ProgressBars, print_built
from swiftlet.corpora.fields import Fields


@takes(settings=BUILT, fields=parameters(Fields))
def adopt(
    vectors: Annotated[
        str,
        typer.Argument(
            help="A file of NumPy, FAISS, Parquet, Arrow or JSON lines, a folder of a dataset or "
            "of Chroma, LanceDB or txtai, or an address of a server.",
            metavar="VECTORS",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Index directory to write.")],
    texts: Annotated[
        list[Path] | None,
        typer.Option(
            help="A corpus with the texts, paired by id, or by order where vectors have none; may "
            "be repeated.",
            show_default="the rows' own",
        ),
    ] = None,
    vector_field: Annotated[
        str | None, typer.Option(help="The field with the vectors.", show_default="the only one")
    ] = None,
    document_field: Annotated[
        str | None,
        typer.Option(
            help="The field with the id of the document that a row is a passage of.",
            show_default="each row is a document",
        ),
    ] = None,
    passage_field: Annotated[
        str | None,
        typer.Option(
            help="The field that orders the passages of a document.", show_default="their order"
        ),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            help="A file with the id of each vector: one a line, or an array of NumPy.",
            show_default="the rows' own",
        ),
    ] = None,
    metric: Annotated[
        Literal["cosine", "inner_product", "l2"] | None,
        typer.Option(help="How vectors are compared.", show_default="the source's, or cosine"),
    ] = None,
    as_is: Annotated[
        bool | None,
        typer.Option(
            "--as-is/--rebuild",
            help="Serve a FAISS file untouched, or build an index of its vectors.",
            show_default="as it is",
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        encoder_option("none", "The document encoder that made the vectors; it is compared."),
    ] = None,
    overwrite: Overwrite = False,
    *,
    settings: dict[str, Any],
    fields: dict[str, Any],
) -> None:
    """Build an index from vectors that exist. Run the same command to resume it."""
    from swiftlet.index.building.adopt import adopt as build

    with ProgressBars() as progress:
        manifest = build(
            vectors,
            out,
            texts=texts or None,
            fields=Fields(**fields) if fields else None,
            vector_field=vector_field,
            document_field=document_field,
            passage_field=passage_field,
            ids=ids,
            metric=metric,
            as_is=as_is,
            encoder=encoder,
            overwrite=overwrite,
            progress=progress,
            **settings,
        )
    print_built(out, manifest.details)
