"""`swiftlet train`: trains a pair of encoders by a recipe, or shows the plan of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from swiftlet.cli.models.exporting import export_models, has_ended
from swiftlet.cli.options import Finish, OverwriteRun, Resume
from swiftlet.cli.terminal import ProgressBars, output, print_plain, print_result

if TYPE_CHECKING:
    from training.loop.run import Start
    from training.recipes.settings import Recipe
    from training.reranking.settings import RerankerRecipe
    from training.train import Outcome


def train(
    recipe: Annotated[
        Path, typer.Argument(help="A recipe in TOML: see docs/training.md.", metavar="RECIPE")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Directory of the run.", show_default="none")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated."),
    ] = None,
    resume: Resume = False,
    finish: Finish = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate; print sizes, memory and steps.")
    ] = False,
    overwrite: OverwriteRun = False,
) -> None:
    """Train a pair of encoders, or a cross-encoder, as a recipe says."""
    from swiftlet.errors import InvalidArgumentError
    from swiftlet.extras import extra
    from training.recipes.overrides import read_tables

    tables = read_tables(recipe, overrides or [])
    if out is None and not dry_run:
        raise InvalidArgumentError("--out is missing: the directory that the run is kept in")
    with extra("training"):
        from training.plan import make_plan
        from training.recipes.settings import Recipe, parse_recipe, parse_tables
        from training.reranking.settings import CROSS_ENCODER, RerankerRecipe
        from training.reranking.train import plan_of
    settings: Recipe | RerankerRecipe
    if tables.get("recipe") == CROSS_ENCODER:
        settings = parse_tables(RerankerRecipe, tables, str(recipe))
    else:
        settings = parse_recipe(tables, str(recipe))
    if dry_run or out is None:
        with ProgressBars() as progress:
            if isinstance(settings, RerankerRecipe):
                rows = plan_of(settings, progress)
            else:
                rows = make_plan(settings, progress).rows()
        _print_plan(rows, recipe)
        return
    start: Start = {"resume": resume, "finish": finish, "overwrite": overwrite}
    if isinstance(settings, RerankerRecipe):
        _train_reranker(settings, out, start)
    else:
        _train_pair(settings, out, start)


def _train_pair(recipe: "Recipe", out: Path, start: "Start") -> None:
    from training.train import keeps_documents
    from training.train import train as run

    outcome = None
    if not has_ended(out, resume=start["resume"]):
        with ProgressBars() as progress:
            outcome = run(recipe, out, progress=progress, **start)
        _print_outcome(outcome, out)
    if not (exported := export_models(out)):
        return
    if outcome is not None and not outcome.has_gained:
        print_plain(
            "The training brought no gain: train longer, or keep the encoders that it began with."
        )
    elif keeps_documents(recipe):
        print_plain(f"Next: swiftlet serve INDEX --encoder {exported[0]}")
    else:
        print_plain(f"Next: swiftlet index CORPUS --out INDEX --encoder {exported[-1]}")


def _print_outcome(outcome: "Outcome", out: Path) -> None:
    figures = ", ".join(f"{name} {value:.4f}" for name, value in outcome.quality.items())
    print_result(
        out,
        f"{outcome.chosen}; on {outcome.num_queries:,} validation queries "
        f"{figures}; nDCG@10 before the training {outcome.ndcg_before:.4f}",
    )


def _train_reranker(recipe: "RerankerRecipe", out: Path, start: "Start") -> None:
    from training.reranking.train import train_reranker

    if has_ended(out, resume=start["resume"]):
        export_models(out)
        return
    with ProgressBars() as progress:
        outcome = train_reranker(recipe, out, progress=progress, **start)
    print_result(
        out,
        f"the best checkpoint is of step {outcome.step}; on "
        f"{outcome.num_queries:,} validation queries nDCG@10 {outcome.ndcg:.4f} with weight "
        f"{outcome.weight}, of the search {outcome.searched_ndcg:.4f}",
    )
    if outcome.weight == 0:
        print_plain(
            "It is no better than the search, so it was not exported: keep the search, train on "
            "more judged queries, or export a cross-encoder that was trained elsewhere"
        )
        return
    for exported in export_models(out):
        print_plain(f"Next: swiftlet serve INDEX --reranker {exported}")


def _print_plan(rows: Sequence[tuple[str, str]], recipe: Path) -> None:
    table = Table(title=f"{recipe}, not run", title_justify="left", show_header=False)
    for row in rows:
        table.add_row(*row)
    output.print(table)
