"""`swiftlet install`: an index or a folder as tools in the programs with a language model."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.address import ADDRESSES
from swiftlet.cli.terminal import messages, output, print_note


def install(
    place: Annotated[
        str | None,
        typer.Argument(
            help=f"Index directory, a folder of files, {ADDRESSES}.",
            metavar="INDEX|FOLDER",
            show_default="the current folder; with --uninstall, all",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The name of the entry.", show_default="that of the index or folder"),
    ] = None,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove the entries.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
) -> None:
    """Write the server of an index or a folder into the settings of programs with a language model.

    Claude Code, Claude Desktop, Codex, Cursor, VS Code and Zed are found by their folders.
    """
    import json
    from importlib.util import find_spec

    from swiftlet.errors import MissingExtraError, RetrievalError
    from swiftlet.extras import way_to
    from swiftlet.integrations import agents

    if place is None and not uninstall:
        place = "."
    if place is not None and "://" not in place:
        if not uninstall:
            _check(place)
        place = str(Path(place).resolve())
    chosen = agents.checked_name(agents.name_of(place or "") if name is None else name)
    if not uninstall and find_spec("mcp") is None:
        raise MissingExtraError(f"the package 'mcp' is not installed: run {way_to('mcp')}")
    found = [program for program in agents.PROGRAMS if program.is_there]
    problems = []
    for program in found:
        try:
            if uninstall or place is None:
                done = agents.uninstall(program, place, dry=dry_run)
            else:
                done = agents.install(program, place, chosen, dry=dry_run)
        except RetrievalError as error:
            problems.append(f"{error}")
        else:
            output.print(f"{program.name}: {program.place()} {done}", markup=False, soft_wrap=True)
    if problems:
        for problem in problems[:-1]:
            print_note(problem)
        raise RetrievalError(problems[-1])
    if not found and place is not None:
        entry = json.dumps({"mcpServers": {chosen: agents.command_of(place)}}, ensure_ascii=False)
        names = ", ".join(program.name for program in agents.PROGRAMS)
        messages.print(
            f"None of {names} is here. For another program: {entry}", markup=False, soft_wrap=True
        )


def _check(place: str) -> None:
    from swiftlet.errors import InvalidArgumentError
    from swiftlet.sync.folder import check_is_chosen

    if not (place and Path(place).is_dir()):
        raise InvalidArgumentError(f"{place!r} is no index and no folder: give one of the two")
    if not Path(place, "manifest.json").exists():
        check_is_chosen(Path(place).resolve())
