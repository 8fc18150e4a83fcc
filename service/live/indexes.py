"""Several indexes in one service: each answers below /indexes/NAME as an index alone does."""

import asyncio
import logging
import os
import re
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import perf_counter

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from service.live.reload import closing
from service.live.state import ServiceState
from service.wire.keys import ApiKey
from service.wire.problems import NotReadyError, UnknownIndexError
from swiftlet.errors import RetrievalError, shown
from swiftlet.manifest import FILE_NAME as MANIFEST
from swiftlet.search.searcher import Searcher

_NAME = re.compile(r"[\w-][\w.-]{0,99}", re.ASCII)
_SECONDS_BETWEEN_LOOKS = 0.25

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Slot:
    """An application, and the index that it answers with now."""

    state: ServiceState
    app: ASGIApp
    place: Path
    """Where links lead."""

    next_look: float = 0.0
    problem: str = ""
    requests: int = 0
    is_retired: bool = False


class Indexes:
    """An application over the index directories of a folder.

    One is opened when it is first asked, and closed when so many others were asked since that there
    are more than the most. What is published, changed or removed in the folder is seen within a
    second.
    """

    def __init__(
        self,
        outer: ServiceState,
        folder: Path,
        load: Callable[[Path], Searcher],
        make: Callable[[ServiceState], ASGIApp],
        *,
        cache_bytes: int,
        most_open: int,
        key: ApiKey | None = None,
    ) -> None:
        """Open indexes by `load`, and answer their requests by what `make` gives.

        :param outer: That of the service, which may be about to stop.
        :param key: Only who has one is told that there is no index of a name.
        """
        self._outer = outer
        self._folder, self._load, self._make = folder, load, make
        self._cache_bytes, self._most_open, self._key = cache_bytes, most_open, key
        self._opened = OrderedDict[str, _Slot]()
        # FastAPI's caches keep applications that are gone, so those of closed indexes are used
        # again.
        self._free: list[_Slot] = []
        self._opening = asyncio.Lock()
        self._looks = ThreadPoolExecutor(1, "look")

    def names(self) -> list[str]:
        """The indexes that there are now.

        :raises NotReadyError: When the folder cannot be read.
        """
        try:
            found = [each.parent.name for each in self._folder.glob(f"*/{MANIFEST}")]
        except OSError as error:
            raise NotReadyError(f"{self._folder} cannot be read: {error.strerror}") from error
        return sorted(filter(_NAME.fullmatch, found))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request below a name.

        :raises UnknownIndexError: When the folder has no index of this name.
        :raises NotReadyError: When it cannot be opened.
        """
        root = scope["root_path"]
        name, slash, _ = scope["path"].removeprefix(f"{root}/").partition("/")
        scope["state"]["context"].index = name
        try:
            slot = await self._of(name)
        except UnknownIndexError:
            if self._key is not None:
                await self._key(Request(scope))
            raise
        slot.requests += 1
        slot.state.draining = self._outer.draining
        try:
            if slash:
                scope["root_path"] = f"{root}/{name}"
                await slot.app(scope, receive, send)
            else:
                await RedirectResponse(f"{name}/")(scope, receive, send)
        finally:
            slot.requests -= 1
            self._release(slot)

    def close(self) -> None:
        """Close all indexes; no request may be answered any more."""
        self._looks.shutdown(cancel_futures=True)
        for slot in self._opened.values():
            slot.state.loaded.suggestions.close()
            slot.state.loaded.searcher.close()

    async def _of(self, name: str) -> _Slot:
        now, slot = perf_counter(), self._opened.get(name)
        if slot is None:
            async with self._opening:  # so that requests at once open it once
                if name not in self._opened:
                    slot = self._opened[name] = await asyncio.to_thread(self._open, name)
                    if len(self._opened) > self._most_open:
                        self._retire(next(iter(self._opened)))
                return self._opened[name]
        if now > slot.next_look:
            is_late = now > slot.next_look + _SECONDS_BETWEEN_LOOKS
            slot.next_look = now + _SECONDS_BETWEEN_LOOKS
            look = asyncio.ensure_future(self._looked(name, slot))
            if is_late:  # nobody has asked for a while
                await look
                return await self._of(name)
        self._opened.move_to_end(name)
        return slot

    async def _looked(self, name: str, slot: _Slot) -> None:
        """Read the changes of an index; let go of it if it is gone, or a link leads elsewhere."""
        look = asyncio.get_running_loop().run_in_executor
        slot.requests += 1
        try:
            is_there = await look(self._looks, self._is_there, name, slot)
        finally:
            slot.requests -= 1
            self._release(slot)
        if not is_there and self._opened.get(name) is slot:
            self._retire(name)

    def _is_there(self, name: str, slot: _Slot) -> bool:
        try:
            if self._place(name) != slot.place:
                return False
            slot.state.loaded.searcher.refresh()
            slot.problem = ""
        except UnknownIndexError:
            return False
        except RetrievalError as error:
            if slot.problem != f"{error}":
                slot.problem = f"{error}"
                logger.error("changes of the index %s cannot be read: %s", name, error)  # noqa: TRY400
        return True

    def _place(self, name: str) -> Path:
        place = self._folder / name
        if not _NAME.fullmatch(name) or not (place / MANIFEST).is_file():
            raise UnknownIndexError(f"there is no index {shown(name)}; GET /indexes names all")
        return Path(os.path.realpath(place))

    def _open(self, name: str) -> _Slot:
        place = self._place(name)
        try:
            searcher = self._load(place)
        except RetrievalError as error:
            raise NotReadyError(f"the index {name} cannot be opened: {error}") from error
        if self._free:
            slot = self._free.pop()
            slot.state.publish(searcher)
            slot.place, slot.problem, slot.is_retired = place, "", False
        else:
            state = ServiceState(searcher, cache_bytes=self._cache_bytes)
            slot = _Slot(state, self._make(state), place)
        slot.next_look = perf_counter() + _SECONDS_BETWEEN_LOOKS
        logger.info("opened the index %s: %s", name, slot.state.loaded.generation)
        return slot

    def _retire(self, name: str) -> None:
        slot = self._opened.pop(name)
        slot.is_retired = True
        self._release(slot)

    def _release(self, slot: _Slot) -> None:
        """Close a retired index after its last request."""
        if slot.is_retired and not slot.requests:
            # A daemon, so that a search that hangs does not keep the process from ending.
            Thread(target=closing(slot.state.loaded), name="close", daemon=True).start()
            del slot.state.loaded
            self._free.append(slot)
