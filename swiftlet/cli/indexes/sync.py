"""`swiftlet sync`: an index that follows a folder."""

from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from swiftlet.cli.indexes.changes import compact_if_needed
from swiftlet.cli.options import RememberedEncoderOption, Threads
from swiftlet.cli.terminal import ProgressBars, count, messages, print_note, print_result

if TYPE_CHECKING:
    from swiftlet.sync.rounds import FolderReader, Round

_TRIES, _MOST_NAMED = 3, 5


def sync(
    index: Annotated[
        Path, typer.Argument(help="Index directory; it is made if it is missing.", metavar="INDEX")
    ],
    folder: Annotated[Path, typer.Argument(help="The folder to follow.", metavar="FOLDER")],
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and follow each change.")] = False,
    encoder: RememberedEncoderOption = None,
    threads: Threads = None,
) -> None:
    """Bring an index in step with a folder: new, changed, renamed and deleted files."""
    from swiftlet.encoders.opening import encoder_place
    from swiftlet.errors import InvalidArgumentError
    from swiftlet.index.lexical import AUTO
    from swiftlet.index.updates.directory_writer import IndexWriter
    from swiftlet.sync.folder import Folder, printable
    from swiftlet.sync.rounds import FolderReader, FolderSync
    from swiftlet.sync.seen import SeenFiles
    from swiftlet.sync.watch import watch as follow

    folder, is_new = folder.resolve(), not (index / "manifest.json").exists()
    if not folder.is_dir():
        raise InvalidArgumentError(f"{folder} is no folder: nothing is deleted")
    if is_new and index.exists():
        raise InvalidArgumentError(f"{index} is there and is no index: name another place for it")
    seen, printed = SeenFiles(index, folder), set[str]()
    reader = FolderReader(Folder(folder), seen)
    if is_new:
        try:
            _build(reader, index, encoder, threads, printed)
        except BaseException:
            seen.remove()
            raise
    place = None if encoder == AUTO else encoder_place(encoder)  # the index remembers its choice
    with IndexWriter(index, place, threads=threads) as writer:
        if place is not None:  # a wrong one is refused also when no file has changed
            writer.check_encoder()
        following = FolderSync(reader, writer)
        for _ in range(_TRIES):
            with ProgressBars() as progress:
                done = following.round(progress=progress)
            report(index, done, printed, always=not is_new)
            if not done.waiting:
                break
        if done.waiting and not watch:
            names = ", ".join(map(printable, done.waiting[:_MOST_NAMED]))
            more = len(done.waiting) - _MOST_NAMED
            names += f" and {more:,} more" if more > 0 else ""
            print_note(f"still being written, so left for the next sync: {names}")
        compact_if_needed(writer)
        if not watch:
            return
        messages.print(f"Following {folder} - stop with Ctrl-C", markup=False, soft_wrap=True)
        with suppress(KeyboardInterrupt):
            follow(following, lambda done: report(index, done, printed), print_note, Event())


def _build(
    reader: "FolderReader",
    index: Path,
    encoder: str | None,
    threads: int | None,
    printed: set[str],
) -> None:
    from swiftlet.index.building.build import build
    from swiftlet.sync.rounds import Round

    done = Round()
    with ProgressBars() as progress:
        built = build(
            reader.documents(done), index, encoder=encoder, threads=threads, progress=progress
        )
    done.num_encoded = built.details["num_passages"]
    report(index, done, printed, always=True)


def report(index: Path, done: "Round", printed: set[str], *, always: bool = False) -> None:
    """Print what a round has done, and each of its problems once, until it is over."""
    for problem in done.problems:
        if problem not in printed:
            print_note(problem)
    if done.is_whole:
        printed.clear()
    printed.update(done.problems)
    if always or done.num_put or done.num_deleted:
        print_result(
            index,
            f"{count(done.num_put, 'file')} put, {done.num_deleted:,} deleted, "
            f"{count(done.num_encoded, 'passage')} encoded, {done.num_reused:,} kept",
        )
