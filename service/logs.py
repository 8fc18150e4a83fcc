"""The log on standard error, as lines for people or as JSON for machines."""

import logging
import sys
from datetime import UTC, datetime
from typing import Literal

from pydantic_core import to_json

LogFormat = Literal["text", "json"]

_FIELDS = ("request_id", "method", "route", "status", "milliseconds")
"""What a record may say of its request."""


class JsonFormatter(logging.Formatter):
    """One JSON object a record, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record with its time, level, logger, message, and what it says of its request."""
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


def configure_log(level: str, log_format: LogFormat) -> None:
    """Write what is at least of `level` to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter()
        if log_format == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler])
    # It tells each step of its own and, in two warnings, each request that is not HTTP, with which
    # any client could fill the log.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
