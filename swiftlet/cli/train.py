"""`swiftlet train`: trains a pair of encoders by a recipe, or shows the plan of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from swiftlet.cli.options import OverwriteRun, Resume
from swiftlet.cli.terminal import ProgressBars, output

if TYPE_CHECKING:
    from training.plan import Plan


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe in TOML: see docs/training.md.")],
    out: Annotated[
        Path | None, typer.Option(help="Directory of the run.", show_default="none")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated."),
    ] = None,
    resume: Resume = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate; print sizes, memory and steps.")
    ] = False,
    overwrite: OverwriteRun = False,
) -> None:
    """Train a pair of encoders: DAFT, contrastive or alternating."""
    from swiftlet.retrieval.errors import InvalidArgumentError
    from swiftlet.retrieval.extras import extra

    with extra("training"):
        from training.loop.devices import is_main_process
        from training.plan import make_plan
        from training.recipes.settings import read_recipe
        from training.train import train as run
    settings = read_recipe(recipe, overrides or [])
    if dry_run:
        with ProgressBars(visible=is_main_process()) as progress:
            plan = make_plan(settings, progress)
        if is_main_process():
            output.print(_table(plan, str(recipe)))
        return
    if out is None:
        raise InvalidArgumentError("--out is missing: the directory that the run is kept in")
    with ProgressBars(visible=is_main_process()) as progress:
        outcome = run(settings, out, resume=resume, overwrite=overwrite, progress=progress)
    if not is_main_process():
        return
    figures = ", ".join(f"{name} {value:.4f}" for name, value in outcome.quality.items())
    output.print(
        f"[bold]{out}[/]: {outcome.chosen}; on {outcome.num_queries:,} validation queries "
        f"{figures}",
        soft_wrap=True,
    )
    others = (
        "for queries and documents"
        if settings.dual_encoder.sharing == "all"
        else "and the same for query_encoder"
    )
    output.print(
        f"Next: swiftlet export {out}/document_encoder --out DIR, {others}",
        markup=False,
        soft_wrap=True,
    )


def _table(plan: "Plan", name: str) -> Table:
    table = Table(title=f"{name}, not run", title_justify="left", show_header=False)
    for row in plan.rows():
        table.add_row(*row)
    return table
