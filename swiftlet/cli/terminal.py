"""The terminal: progress bars, notes and refusals."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

if TYPE_CHECKING:
    from swiftlet.corpora.lines import SkippedLines

# Some work moves a bar once in half a minute.
_SECONDS_OF_SPEED = 120
_SECONDS_BETWEEN_LINES = 10.0

_LOW_RECALL = 0.95

# Half of a surrogate pair, as in a name that is no UTF-8, cannot be printed.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class _PlainConsole(Console):
    """Prints no control characters of texts: a document's could set the clipboard, or a title."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Replace control characters of texts by U+FFFD; styles are not in texts."""
        for segment in super().render(renderable, options):
            plain = _CONTROLS.sub("\ufffd", segment.text)
            yield segment if segment.control else Segment(plain, segment.style)


output = _PlainConsole(highlight=False)
messages = _PlainConsole(stderr=True, highlight=False)


class _Rate(ProgressColumn):
    """Steps per second of this run."""

    def render(self, task: Task) -> Text:
        """The rate, or nothing while it is unknown."""
        speed = task.finished_speed or task.speed
        if speed is None:
            return Text("")
        return Text(f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s", "progress.data.speed")


class _Time(TimeRemainingColumn):
    """The time that is left, and at the end the time that it took."""

    def render(self, task: Task) -> Text:
        """Minutes and seconds, with hours where there are any."""
        time = super().render(task)
        return time if task.finished else Text.assemble(time, " left")


class ProgressBars:
    """A progress bar for each piece of work of a build, on standard error.

    Where that is no terminal but a log, there is a line every ten seconds instead.
    """

    def __init__(self) -> None:
        whole = Column(no_wrap=True)  # in a narrow terminal, the bar becomes short first
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(table_column=whole),
            _Rate(table_column=whole),
            _Time(compact=True, elapsed_when_finished=True, table_column=whole),
            TextColumn("{task.fields[detail]}", style="progress.data.speed"),
            console=messages,
            speed_estimate_period=_SECONDS_OF_SPEED,
        )
        self._task: TaskID | None = None
        self._ended = Event()
        self._lines = Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._task is None:
            return
        self._ended.set()
        if self._lines.is_alive():
            self._lines.join()
        if error is None:
            self._finish()
        else:
            self._progress.remove_task(self._task)
        if self._progress.tasks:
            self._progress.stop()
        else:  # without the empty line that a log would get
            self._progress.live.transient = True
            self._progress.live.stop()

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        """Begin a bar; `done` of its steps were done by an earlier run."""
        self._progress.start()  # late, so that a command that is refused at once shows no bars
        self._finish()
        if done:
            self.note(f"going on after {done:,}" + (f" of {total:,}" if total else ""))
        self._task = self._progress.add_task(name, total=total, detail="")
        self._progress.update(self._task, completed=done)
        if not messages.is_terminal and self._lines.ident is None:
            self._lines.start()

    def advance(self, steps: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.advance(self._task, steps)

    def describe(self, text: str) -> None:
        """Put a few words behind the bar."""
        if self._task is not None:
            self._progress.update(self._task, detail=text)

    def note(self, text: str) -> None:
        """Print a sentence above the bars."""
        print_note(text)

    def _print_lines(self) -> None:
        last = ""
        while not self._ended.wait(_SECONDS_BETWEEN_LINES):
            task = self._progress.tasks[-1]
            of_all = "" if task.total is None else f" of {task.total:,.0f}"
            remaining = task.time_remaining
            left = f", {timedelta(0, int(remaining))} left" if remaining else ""
            line = f"{task.description}: {task.completed:,.0f}{of_all}{left}"
            if line != last:
                messages.print(line, markup=False, soft_wrap=True)
            last = line

    def _finish(self) -> None:
        """Complete the bar, also when its total is unknown or the work ended earlier."""
        if self._task is None:
            return
        task = self._progress.tasks[-1]
        if not task.finished:
            self._progress.update(self._task, total=max(1, task.completed), completed=None)
            self._progress.update(self._task, completed=max(1, task.completed))


def count(number: int, noun: str) -> str:
    """Such as "1 document" and "1,000 documents"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def counts(details: Mapping[str, Any]) -> str:
    """How many documents and passages an artefact has, by the details of its manifest."""
    documents, passages = details["num_documents"], details["num_passages"]
    return f"{count(documents, 'document')}, {count(passages, 'passage')}"


def print_built(out: object, details: Mapping[str, Any]) -> None:
    """Print what an index has, by the details of its manifest, and how to find more if it is low.

    Near ties count: of identical passages, an exact search may find other ones first.
    """
    from swiftlet.index.building.assembly import FOUND
    from swiftlet.index.vectors.faiss_file import FaissFile

    recall = details["recall"].get(FOUND, details["recall"]["recall@10"])
    ties = " (scores within 1% count)" if FOUND in details["recall"] else ""
    print_result(
        out,
        f"{counts(details)}, {details['factory']}, recall@10 {recall:.3f} against exact search"
        f"{ties}",
    )
    if recall < _LOW_RECALL:
        finer = "Flat" if details["factory"] == "SQ8" else "SQ8"
        is_kept = details["engine"] == FaissFile.name
        print_note(
            "the recall is low, because these vectors are hard to compress or to search: "
            f"{'--rebuild' if is_kept else f'--factory {finer}'} makes an index that finds more "
            "(with --overwrite in place of this one)"
        )


def print_plain(sentence: str) -> None:
    """Print a text, in which brackets are no markup."""
    output.print(sentence, markup=False, soft_wrap=True)


def print_result(place: object, sentence: str) -> None:
    """Print what became of a place."""
    output.print(f"[bold]{escape(str(place))}[/]: {escape(sentence)}", soft_wrap=True)


def figures_table(title: str, *columns: str) -> Table:
    """A table with names in the first column, and figures in the others."""
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    return table


def print_note(sentence: str) -> None:
    """Print a note on standard error."""
    messages.print(f"[yellow]Note:[/] {escape(sentence)}", soft_wrap=True)


def print_refusal(sentence: str) -> None:
    """Print the one sentence of a refusal on standard error."""
    with suppress(OSError):  # a full disk: only the exit status remains
        messages.print(f"[bold red]swiftlet:[/] {escape(sentence)}", soft_wrap=True)


def print_skipped(skipped: "SkippedLines") -> None:
    """Print the bad lines and files that were left out on standard error, and notes of readers."""
    for note in skipped.notes:
        print_note(note)
    if not skipped.count:
        return
    noun = "bad line" if skipped.lines else "file"
    verb = "skipped" if skipped.lines else "left out"
    messages.print(f"[yellow]{count(skipped.count, noun)} {verb}[/]:")
    for message in skipped.messages:
        messages.print(f"  {message}", markup=False, soft_wrap=True)
    if skipped.count > len(skipped.messages):
        messages.print(f"  and {skipped.count - len(skipped.messages):,} more")
