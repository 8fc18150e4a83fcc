"""The original files of documents, where the service knows the folder that they come from."""

import os
import stat
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send

from service.live.state import ReadyService
from service.wire.body import JsonRoute
from service.wire.openapi import problems
from service.wire.problems import UnknownFileError
from swiftlet.errors import InvalidArgumentError, UnknownDocumentError
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document

_TEXT = "text/plain"
_SHOWN = {
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_DOWNLOADED = {
    ".docx", ".odt", ".pptx", ".odp", ".xlsx", ".ods", ".epub", ".rtf", ".msg", ".zip", ".gz",
}  # fmt: skip
_SANDBOX = "sandbox; default-src 'none'; frame-ancestors 'none'"
_BARE = "default-src 'none'; frame-ancestors 'none'"  # no browser shows a PDF in a sandbox


class _FileRoute(JsonRoute):
    refuses_overload = False


class _OpenedFile(FileResponse):
    """A file that is open already, whatever takes its name meanwhile."""

    def __init__(self, opened: FileIO, **arguments: Any) -> None:
        super().__init__(
            f"/dev/fd/{opened.fileno()}", stat_result=os.fstat(opened.fileno()), **arguments
        )
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, and close it."""
        with self._opened:
            await super().__call__(scope, receive, send)


def files_router(folder: Path) -> APIRouter:
    """The route to the files below a folder, each by the id of its document.

    :raises InvalidArgumentError: When there is no such folder.
    """
    if not folder.is_dir():
        raise InvalidArgumentError(
            f"SWIFTLET_FILES is {str(folder)!r}, but there is no such folder: name the one that "
            "the index was made of"
        )
    root = Path(os.path.realpath(folder))
    router = APIRouter(route_class=_FileRoute)

    @router.get(
        "/files/{document_id:path}",
        response_class=FileResponse,
        responses={
            200: {"content": {"application/octet-stream": {}}},
            **problems(UnknownDocumentError, UnknownFileError),
        },
    )
    async def file(document_id: str, service: ReadyService) -> FileResponse:
        """Give the file that a document was read from, which is no markup and runs no script."""
        searcher = service.state.loaded.searcher
        path, opened = await run_in_threadpool(_file_of, searcher, root, document_id)
        suffix = path.suffix.lower()
        is_shown = suffix not in _DOWNLOADED
        return _OpenedFile(
            opened,
            media_type=_SHOWN.get(suffix, _TEXT if is_shown else "application/octet-stream"),
            filename=path.name,
            content_disposition_type="inline" if is_shown else "attachment",
            headers={
                "Content-Security-Policy": _BARE if suffix == ".pdf" else _SANDBOX,
                "Cache-Control": "no-cache",
            },
        )

    return router


def _file_of(searcher: Searcher, root: Path, document_id: str) -> tuple[Path, FileIO]:
    """The file below `root` that a document of the index was read from, by its path and opened.

    The document names it, and who may write documents may name any. So nothing outside the folder
    is given, not by a link either, and nothing hidden.

    :raises UnknownFileError: When there is none.
    """
    name = _name_of(searcher.document(document_id))
    with suppress(OSError, ValueError):  # a name that is too long, or that no file can have
        path = Path(os.path.realpath(root / name))
        parts = path.relative_to(root).parts
        if parts and not any(part.startswith(".") for part in parts):
            return path, _open_below(root, parts)
    raise UnknownFileError(f"the folder has no file of the document {document_id!r} any more")


def _open_below(root: Path, parts: tuple[str, ...]) -> FileIO:
    """Open a file by folders that are no links, so that none can be put in between meanwhile.

    :raises OSError: When it is no file, or one of its folders is a link by now.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    place = os.open(root, flags | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=place)
            os.close(place)
            place = inner
        found = os.open(parts[-1], flags | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)
    opened = FileIO(found)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        opened.close()
        raise OSError("no regular file")
    return opened


def _name_of(document: Document) -> str:
    """The path of a document's file below its folder, which is its id where nothing says it."""
    metadata: Any = document.metadata
    name = metadata.get("path", metadata.get("file", document.document_id))
    return name if isinstance(name, str) else ""
