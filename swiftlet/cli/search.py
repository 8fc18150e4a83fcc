"""`swiftlet search`: the hits for one query."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from swiftlet.cli.fields import PRINTED, takes
from swiftlet.cli.options import (
    IndexPlace,
    PrecisionOption,
    QueryEncoderOption,
    RerankerOption,
)
from swiftlet.cli.terminal import output, print_note

if TYPE_CHECKING:
    from swiftlet.types import Hit

_SHOWN_CHARACTERS = 300


def _needed(context: typer.Context, query: str | None) -> str | None:
    if query is None and not context.params.get("embedding"):
        raise typer.BadParameter("give the text of a query, or --embedding FILE")
    return query


@takes(fields=PRINTED)
def search(
    index: IndexPlace,
    query: Annotated[
        str | None,
        typer.Argument(
            help="The text of the query.", metavar="QUERY", show_default=False, callback=_needed
        ),
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="Documents to return.")] = 10,
    embedding: Annotated[
        Path | None,
        typer.Option(
            help="The query's embedding, in a .npy file or a JSON list: instead of a query, or of "
            "its meaning."
        ),
    ] = None,
    reranker: RerankerOption = None,
    encoder: QueryEncoderOption = None,
    precision: PrecisionOption = None,
    *,
    fields: dict[str, Any],
) -> None:
    """Search an index from the terminal."""
    from swiftlet.search.opening import open_searcher
    from swiftlet.search.request import SearchRequest, check_rerank

    numbers = None if embedding is None else _numbers(embedding)
    request = SearchRequest(query or "", top_k=top_k, embedding=numbers, **fields)
    check_rerank(request.rerank, reranker)
    with open_searcher(index, encoder=encoder, precision=precision, reranker=reranker) as searcher:
        result = searcher.search(request)
        if request.weight is not None and "hybrid" not in searcher.modes:
            print_note("the index has no words, so a weight changes nothing")
        if request.rerank is not None and searcher.reranker and searcher.reranker.weight == 0:
            print_note("the re-ranker has the weight 0, so it does not change the order")
    _print_hits(result.hits, request.offset + 1)
    stages = zip(searcher.stage_names, result.stage_seconds, strict=True)
    output.print(
        f"{1000 * sum(result.stage_seconds):.2f} ms: "
        + ", ".join(f"{name} {1000 * seconds:.2f}" for name, seconds in stages),
        style="dim",
    )


def _numbers(path: Path) -> Any:
    """What a file holds that should be an embedding."""
    import numpy as np

    from swiftlet.errors import InvalidArgumentError

    try:
        if path.suffix == ".npy":
            return np.squeeze(np.load(path, allow_pickle=False))
        return json.loads(path.read_bytes())
    except (OSError, EOFError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgumentError(
            f"{path} is neither a .npy file nor a list of numbers in JSON: {reason}"
        ) from error


def _print_hits(hits: "Sequence[Hit]", first_rank: int) -> None:
    """Print each hit with the beginning of its winning passage."""
    if not hits:
        output.print("no documents found")
    for rank, hit in enumerate(hits, start=first_rank):
        score = f"[green]{hit.score:.4f}[/]"
        if hit.boosted_score is not None:
            score += f"  [green]{hit.boosted_score:.4f}[/]"
        if hit.rerank_score is not None:
            score += f"  [green]{hit.rerank_score:.4f}[/]"
        place = f"[bold]{rank:>3}[/]  {score}  [cyan]{escape(hit.document_id)}[/]"
        output.print(f"{place}  {escape(hit.title)}".rstrip(), soft_wrap=True)
        if hit.passage.heading:
            output.print(Padding(Text(hit.passage.heading, style="italic"), (0, 0, 0, 5)))
        text = " ".join(hit.passage.text.split())
        if len(text) > _SHOWN_CHARACTERS:
            text = text[:_SHOWN_CHARACTERS].rsplit(" ", 1)[0] + " …"
        output.print(Padding(Text(text, style="dim"), (0, 0, 0, 5)))
