"""The log on standard error, as lines for people or as JSON for machines."""

import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, TextIO

from pydantic_core import to_json

from swiftlet.errors import StorageError

LogFormat = Literal["text", "json"]

_FIELDS = ("request_id", "method", "route", "status", "milliseconds")
"""The fields of a record that come from its request."""

logger = logging.getLogger(__name__)


class JsonFormatter(logging.Formatter):
    """One JSON object a record, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record with its time, level, logger, message, and the fields of its request."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: vars(record)[name] for name in _FIELDS if name in vars(record)}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return to_json(fields).decode()


class _Handler(logging.StreamHandler[TextIO]):
    """Keeps the error of a record that could not be written."""

    error: BaseException | None = None

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802
        self.error = sys.exception()


def begin_log(level: str, log_format: LogFormat, settings: Iterable[str]) -> None:
    """Log records of at least `level` to standard error; the first one has the `settings`.

    :raises StorageError: When there is no standard error, or it cannot be written.
    """
    handler = _Handler(sys.stderr)
    handler.setFormatter(
        JsonFormatter()
        if log_format == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler])
    # uvicorn logs its own steps, and two warnings for each request that is not HTTP, with which any
    # client could fill the log.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    # FAISS logs an ImportError as information when it has no build for the newest instructions.
    logging.getLogger("faiss.loader").setLevel(logging.WARNING)
    logger.info("settings: %s", " ".join(settings))
    if handler.error is not None:
        reason = handler.error.strerror if isinstance(handler.error, OSError) else "it is closed"
        raise StorageError(f"the log cannot be written to standard error: {reason}")
