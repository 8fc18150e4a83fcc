"""Follows a folder: rounds of sync as soon as files change."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from watchfiles import watch as watch_files

from swiftlet.errors import RetrievalError
from swiftlet.index.updates.directory_writer import IndexWriter, identity_of
from swiftlet.index.updates.merge import merge_changes
from swiftlet.processors.low_priority import LowPriorityProcess
from swiftlet.sync.folder import RULE_FILES
from swiftlet.sync.rounds import FolderSync, Round

_TICK_MS = 250
_LONGEST_BURST_SECONDS = 1.0
_SECONDS_BETWEEN_ROUNDS = 300.0
"""Between rounds that look at all files, since an event may get lost."""
_SECONDS_AFTER_PROBLEM = 5
_PAUSE, _LEAST_PAUSE, _LONGEST_PAUSE = 10, 0.5, 10.0
"""Between looks at all files where events fail: times the last round, and its bounds in seconds."""

Report = Callable[[Round], None]
Warn = Callable[[str], None]


def watch(sync: FolderSync, report: Report, warn: Warn, stop: Event) -> None:
    """Bring the index in step with each change, until `stop` is set; merge it in between.

    :param report: Called after each round.
    :param warn: Called with a sentence when sync is held up; it goes on by itself.
    """
    merging = Thread(target=_merge, args=(sync.writer, warn))
    try:
        for done in _rounds(sync, warn, stop):
            report(done)
            if sync.writer.needs_merge and not merging.is_alive():
                merging = Thread(target=_merge, args=(sync.writer, warn), name="merge")
                merging.start()
    finally:
        if merging.ident is not None:
            merging.join()


def told(error: Exception, seconds: int) -> str:
    """What is said of an error after which following is tried again."""
    said = error if isinstance(error, RetrievalError) else repr(error)
    return f"{said}; it is tried again every {seconds} seconds"


def _merge(writer: IndexWriter, warn: Warn) -> None:
    """Merge in a process of its own, so that rounds go on, and its memory is free afterwards."""
    process = LowPriorityProcess("merge")
    try:
        writer.compact(merge=partial(process.call, merge_changes))
    except RetrievalError as error:
        warn(f"the changes are written, but could not be merged: {error}")
    finally:
        process.close()


def _rounds(sync: FolderSync, warn: Warn, stop: Event) -> Iterator[Round]:
    watcher, names, problem = _Watcher(sync.folder.path, stop), {""}, ""
    due = 0.0
    while not stop.is_set():
        names |= watcher.changes()
        now = monotonic()
        if watcher.last_round_at + _SECONDS_BETWEEN_ROUNDS < now:
            names.add("")
        if not names or now < due:
            continue
        watcher.last_round_at = now if "" in names else watcher.last_round_at
        try:
            done = sync.round(None if "" in names else sorted(names))
        except Exception as error:  # noqa: BLE001 - what nobody foresaw must not end it
            if (said := told(error, _SECONDS_AFTER_PROBLEM)) != problem:
                warn(said)
            names, problem, due = {""}, said, now + _SECONDS_AFTER_PROBLEM
            continue
        yield done
        names, problem = {*done.waiting}, ""


class _Watcher:
    """Gives the names of what has changed in a folder, also after it was removed and made again."""

    def __init__(self, path: Path, stop: Event) -> None:
        self.last_round_at = monotonic()
        self._path, self._stop = path, stop
        self._identity: tuple[int, int] | None = None
        self._batches: Iterator[set[str]] = iter(())

    def changes(self) -> set[str]:
        """What has changed since the last call, a burst as one; waits a moment for it.

        The empty name stands for all files.
        """
        identity, found = identity_of(self._path), set[str]()
        if identity != self._identity:
            self._identity, found = identity, {""}
            self._batches = self._begin() if identity else iter(())
        began = monotonic()
        while not self._stop.is_set() and monotonic() - began < _LONGEST_BURST_SECONDS:
            new = next(self._batches, None)
            if new is None:  # there is nothing to watch
                self._stop.wait(_TICK_MS / 1000)
                break
            if not new - found:  # a log that grows does not hold up other files
                break
            found |= new
        return found

    def _begin(self) -> Iterator[set[str]]:
        missed = False
        while not self._stop.is_set():
            batches = watch_files(
                self._path,
                watch_filter=None,
                debounce=_TICK_MS,
                rust_timeout=_TICK_MS,
                yield_on_timeout=True,
                stop_event=self._stop,
                ignore_permission_denied=True,
            )
            try:
                for changes in batches:
                    found = {
                        name for _, path in changes if (name := self._name_of(path)) is not None
                    }
                    yield {""} if missed else found
                    missed = False
            # Too many folders to watch; or a name that is no UTF-8, also of a folder that is read.
            except (OSError, UnicodeError, RuntimeError):
                began = monotonic()
                if missed:
                    yield {""}
                yield set()
                pause = _PAUSE * (monotonic() - began)
                missed = True
                self._stop.wait(min(max(_LEAST_PAUSE, pause), _LONGEST_PAUSE))

    def _name_of(self, path: str) -> str | None:
        """The name that a path is followed by; None for what is hidden."""
        name = Path(path).relative_to(self._path).as_posix()
        if name.rpartition("/")[2] in RULE_FILES:
            return ""
        hidden = any(part.startswith(".") and part != "." for part in name.split("/"))
        return None if hidden else name.removeprefix(".")
