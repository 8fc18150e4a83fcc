"""`swiftlet train`: a recipe, run or only looked at."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from retrieval.errors import InvalidArgumentError
from swiftlet.terminal import StageBars, output
from training.devices import is_main_process
from training.plan import Plan, make_plan
from training.recipe import read_recipe
from training.train import train


def train_recipe(
    path: Path,
    out: Path | None,
    *,
    overrides: Sequence[str],
    resume: bool,
    overwrite: bool,
    dry_run: bool,
) -> None:
    """Train what the recipe at `path` says into `out`, or with `dry_run` say what that would be."""
    recipe = read_recipe(path, overrides)
    if dry_run:
        with StageBars(visible=is_main_process()) as progress:
            plan = make_plan(recipe, progress)
        if is_main_process():
            output.print(_table(plan, str(path)))
        return
    if out is None:
        raise InvalidArgumentError("--out is missing: the directory that the run is kept in")
    with StageBars(visible=is_main_process()) as progress:
        outcome = train(recipe, out, resume=resume, overwrite=overwrite, progress=progress)
    if not is_main_process():
        return
    figures = ", ".join(f"{name} {value:.4f}" for name, value in outcome.quality.items())
    output.print(
        f"[bold]{out}[/]: {outcome.chosen}; on {outcome.num_queries:,} validation queries "
        f"{figures}",
        soft_wrap=True,
    )
    output.print(
        f"Next: swiftlet export {out}/document_encoder --out DIR, and the same for query_encoder",
        markup=False,
        soft_wrap=True,
    )


def _table(plan: Plan, name: str) -> Table:
    table = Table(title=f"{name}, not run", title_justify="left", show_header=False)
    for row in plan.rows():
        table.add_row(*row)
    return table
