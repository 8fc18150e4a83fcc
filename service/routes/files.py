"""The original files of documents, where the service knows the folder that they come from."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse

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
        path = await run_in_threadpool(_file_of, searcher, root, document_id)
        suffix = path.suffix.lower()
        is_shown = suffix not in _DOWNLOADED
        return FileResponse(
            path,
            media_type=_SHOWN.get(suffix, _TEXT if is_shown else "application/octet-stream"),
            filename=path.name,
            content_disposition_type="inline" if is_shown else "attachment",
            headers={
                "Content-Security-Policy": _BARE if suffix == ".pdf" else _SANDBOX,
                "Cache-Control": "no-cache",
            },
        )

    return router


def _file_of(searcher: Searcher, root: Path, document_id: str) -> Path:
    """The file below `root` that a document of the index was read from.

    The document names it, and who may write documents may name any. So nothing outside the folder
    is given, not by a link either, and nothing hidden.

    :raises UnknownFileError: When there is none.
    """
    name = _name_of(searcher.document(document_id))
    with suppress(OSError, ValueError):  # a name that is too long, or that no file can have
        path = Path(os.path.realpath(root / name))
        is_visible = not any(part.startswith(".") for part in path.relative_to(root).parts)
        if is_visible and path.is_file():
            return path
    raise UnknownFileError(f"the folder has no file of the document {document_id!r} any more")


def _name_of(document: Document) -> str:
    """The path of a document's file below its folder, which is its id where nothing says it."""
    metadata: Any = document.metadata
    name = metadata.get("path", metadata.get("file", document.document_id))
    return name if isinstance(name, str) else ""
