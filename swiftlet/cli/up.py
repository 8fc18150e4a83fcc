"""`swiftlet up`: a folder that searches itself."""

import atexit
import ctypes
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from importlib.util import find_spec
from itertools import islice
from multiprocessing import get_context
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from swiftlet import encoders
from swiftlet.cli.demo import demo
from swiftlet.cli.indexes.sync import report
from swiftlet.cli.options import encoder_option
from swiftlet.cli.terminal import ProgressBars, messages, output, print_note
from swiftlet.extras import way_to

if TYPE_CHECKING:
    from swiftlet.sync.ahead import ReadAhead

FOLLOWS = 15
"""The nice value of the process that follows."""

_SECONDS_AFTER_FAILURE = 30
_SIGNAL_OF_PARENTS_DEATH = 1
_SECONDS_BETWEEN_TRIES = 5
_ENCODING = "Encoding passages"
_MANY_FILES = 200  # fewer are read before another process has begun


def up(
    folder: Annotated[
        Path | None,
        typer.Argument(help="The folder to search.", show_default="the demo", metavar="FOLDER"),
    ] = None,
    encoder: Annotated[str | None, encoder_option("the one that ships")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8080,
) -> None:
    """Search a folder: its index, the page, tools for language models, and live sync.

    Nothing is written into FOLDER: the index is in the user's cache folder.
    """
    if folder is None:
        demo(host=host, port=port)
    else:
        _up(Path(os.path.realpath(folder)), encoder, host, port)


def _up(folder: Path, encoder: str | None, host: str, port: int) -> None:
    from swiftlet.corpora.languages import begin_loading
    from swiftlet.encoders.opening import is_asked
    from swiftlet.errors import InvalidArgumentError
    from swiftlet.sync.ahead import ReadAhead
    from swiftlet.sync.folder import check_is_chosen

    if not folder.is_dir():
        raise InvalidArgumentError(f"{folder} is no folder")
    check_is_chosen(folder)
    place = place_of(folder)
    index = place / "index"
    ahead = None
    if not index.exists():  # beside the imports that follow
        begin_loading()
        if next(islice(folder.rglob("*"), _MANY_FILES, None), None):
            ahead = ReadAhead(folder)
    from service.listeners import listen
    from service.server import serve
    from service.settings import load_settings
    from swiftlet.manifest import read_manifest
    from swiftlet.sync.refine import is_first

    with _alone(place, folder):
        # A port in use is refused before the index is built.
        with listen(host, port):
            pass
        printed = _make_first(index, folder, encoder, ahead)
        # The index remembers another encoder; these only run when they are named.
        asked = encoder if encoder is not None and is_asked(encoder) else None
        settings = load_settings(
            index=index, files=folder, host=host, port=port, log_level="warning",
            encoder=asked, document_encoder=asked,
        )  # fmt: skip
        num_passages = read_manifest(index, "index").details["num_passages"]
        encoded = get_context("spawn").Array("q", [0, num_passages])
        serve(
            settings,
            on_ready=partial(_begin, index, folder, asked, encoded, printed),
            refining=lambda: (encoded[0], encoded[1]) if is_first(index) else None,
        )


def _make_first(
    index: Path, folder: Path, encoder: str | None = None, ahead: "ReadAhead | None" = None
) -> set[str]:
    """Build the first index of a folder, if it has none that can be used; what was noted then."""
    from swiftlet.sync.refine import build_first

    printed = set[str]()
    if not _is_usable(index, encoder):
        messages.print(f"Reading {folder}", markup=False, soft_wrap=True)
        with ProgressBars() as progress:
            done = build_first(index, folder, progress, encoder, ahead)
        report(folder, done, printed, always=True)
    return printed


def followed(folder: Path, asked: str | None = None) -> Path:
    """The index of a folder; as long as this process lives, it follows the folder.

    :param asked: The function or the address that encodes, if it is neither that ships.
    :raises InvalidArgumentError: When the folder has no file that can be read, or a whole home.
    """
    from swiftlet.errors import InvalidArgumentError
    from swiftlet.sync.folder import check_is_chosen

    folder = Path(os.path.realpath(folder))
    check_is_chosen(folder)
    index, printed = place_of(folder) / "index", set[str]()
    try:
        # The protocol of language models has standard output for itself.
        with redirect_stdout(sys.stderr), _alone(index.parent, folder):
            printed = _make_first(index, folder, asked)
    except InvalidArgumentError:  # another process is up, which has made it
        pass
    _start(index, folder, asked, None, printed)
    return index


def place_of(folder: Path) -> Path:
    """Where the index of a folder is, by its real path."""
    from blake3 import blake3

    name = os.fsencode(folder.name).decode(errors="replace")  # packages take names of UTF-8 alone
    code = blake3(os.fsencode(folder)).hexdigest(8)
    return encoders.user_cache() / "folders" / f"{name or 'root'}-{code}"


@contextmanager
def _alone(place: Path, folder: Path) -> Iterator[None]:
    """Let one process be up for a folder.

    :raises InvalidArgumentError: When another one is; it says where, as soon as that one answers.
    """
    from swiftlet import disk
    from swiftlet.errors import ArtefactError, InvalidArgumentError
    from swiftlet.publication import writer_lock

    address = place / "address"
    try:
        lock = writer_lock(place)
        lock.__enter__()
    except ArtefactError:
        where = address.read_text("utf-8") if address.is_file() else ""
        raise InvalidArgumentError(
            f"{folder} is searched already, at {where}: open that, or stop it first"
            if where
            else f"{folder} is being indexed by another process: wait until that prints its "
            "address, or stop it first"
        ) from None
    try:
        disk.remove(address, missing_ok=True)  # of a process that was killed
        yield
    finally:
        lock.__exit__(None, None, None)


def _is_usable(index: Path, encoder: str | None) -> bool:
    """Whether an index is there, of the encoder that is named, and with words as they are now."""
    from swiftlet.encoders.opening import encoder_place
    from swiftlet.errors import ArtefactError
    from swiftlet.index.document_encoder import PLACE, with_place
    from swiftlet.index.lexical import AUTO
    from swiftlet.index.lexical.analysis import ANALYSIS, VERSION
    from swiftlet.manifest import read_manifest
    from swiftlet.sync.refine import is_first

    try:
        details = read_manifest(index, "index").details
    except ArtefactError:
        return False
    is_same = encoder is None or not is_first(index)
    if encoder not in (None, AUTO) and (wanted := encoder_place(encoder)) is not None:
        is_same &= details.get(PLACE) == with_place({}, wanted).get(PLACE)
    return is_same and details.get(ANALYSIS) == VERSION


def _begin(
    index: Path,
    folder: Path,
    asked: str | None,
    encoded: "SynchronizedArray[int]",
    printed: set[str],
    address: str,
) -> None:
    """Start what runs beside the service, as soon as that answers."""
    from swiftlet import disk

    disk.make_directory(index.parent, parents=True, exist_ok=True)
    disk.write(index.with_name("address"), address)
    _start(index, folder, asked, encoded, printed)
    output.print(f"\nSearch {escape(str(folder))} on [bold cyan]{address}[/] - stop with Ctrl-C")
    if find_spec("mcp") is None:
        print_note(f"no tools for language models: for them, run {way_to('mcp')}")
        return
    host, _, port = address.removeprefix("http://").rpartition(":")
    if not os.environ.get("SWIFTLET_SEARCH_KEYS"):  # tools ask for no key
        arguments = index, asked, host.strip("[]"), int(port) + 1
        Thread(target=_serve_tools, args=arguments, name="mcp", daemon=True).start()
    command = shlex.join(["swiftlet", "install", f"{folder}"])
    output.print(f"For language models: [dim]{escape(command)}[/]", soft_wrap=True)


def _start(
    index: Path,
    folder: Path,
    asked: str | None,
    encoded: "SynchronizedArray[int] | None",
    printed: set[str],
) -> None:
    """Follow the folder in a process that ends with this one."""
    arguments = index, folder, asked, encoded, printed, os.getpid()
    Thread(target=_keep, args=(folder, arguments), name="sync", daemon=True).start()


def _keep(folder: Path, arguments: tuple[Any, ...]) -> None:
    """Begin the process again when it has ended, as when the system has no memory left."""
    while True:
        # No daemon, since these may have no processes of their own, such as for merges.
        process = get_context("spawn").Process(target=_follow, args=arguments)
        process.start()
        atexit.register(process.terminate)
        process.join()
        atexit.unregister(process.terminate)
        if process.exitcode in {None, -signal.SIGTERM}:  # this process ends, and may have waited
            return
        print_note(
            f"the process that follows {folder} has ended with status {process.exitcode}: it "
            f"begins again in {_SECONDS_BETWEEN_TRIES} seconds"
        )
        sleep(_SECONDS_BETWEEN_TRIES)


def _serve_tools(index: Path, asked: str | None, host: str, port: int) -> None:
    """Serve the tools of `swiftlet mcp` over HTTP, on the port after the service's."""
    import swiftlet
    from service.listeners import listen
    from swiftlet.errors import InvalidArgumentError
    from swiftlet.integrations.mcp import serve_http

    with swiftlet.open(index, encoder=asked) as searcher:
        try:
            with listen(host, port) as listeners:
                output.print(f"              or [dim]http://{host}:{port}/mcp[/]")
                serve_http(searcher, host, listeners)
        except InvalidArgumentError as error:
            print_note(f"no tools over HTTP: {error}")


def _follow(
    index: Path,
    folder: Path,
    asked: str | None,
    encoded: "SynchronizedArray[int] | None",
    printed: set[str],
    parent: int,
) -> None:
    """Runs in a process of low priority, which ends with the service.

    :param printed: What is noted no more, as long as it lasts.
    """
    from swiftlet.encoders.opening import encoder_place
    from swiftlet.processors import available_processors
    from swiftlet.progress import Silence
    from swiftlet.sync.refine import follow
    from swiftlet.sync.watch import told

    os.dup2(2, 1)  # `swiftlet mcp` answers on standard output
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended before that
        return
    os.setpriority(os.PRIO_PROCESS, 0, FOLLOWS)
    problem = ""
    shown = Silence() if encoded is None else _Encoded(encoded)
    while True:
        try:
            _wait_for_turn(index)
            follow(
                index,
                folder,
                shown,
                lambda done: report(folder, done, printed),
                print_note,
                encoder=encoder_place(asked),
                threads=available_processors(),
                stop=Event(),
            )
        except Exception as error:  # noqa: BLE001 - what nobody foresaw must end nothing
            if (said := told(error, _SECONDS_AFTER_FAILURE)) != problem:  # such as a full disk
                print_note(said)
            problem = said
            sleep(_SECONDS_AFTER_FAILURE)


def _wait_for_turn(index: Path) -> None:
    """Wait until no other process follows: `swiftlet up` and `swiftlet mcp` may run together."""
    from swiftlet.errors import ArtefactError
    from swiftlet.publication import writer_lock

    while True:
        try:
            with writer_lock(index):
                return
        except ArtefactError:
            sleep(_SECONDS_BETWEEN_TRIES)


class _Encoded:
    """Tells another process how many passages the document encoder has read, and of how many."""

    def __init__(self, encoded: "SynchronizedArray[int]") -> None:
        self._encoded, self._counts = encoded, False

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        """Count the steps of encoding alone."""
        self._counts = name == _ENCODING
        if self._counts:
            self._encoded[:] = [done, total or 0]

    def advance(self, steps: int) -> None:
        """Some passages are read."""
        if self._counts:
            self._encoded[0] += steps

    def note(self, text: str) -> None:
        """The first index has shown the sentence, such as that another encoder is needed."""
