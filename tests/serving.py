"""A service that a command starts, as its users do."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def served_by(command: Sequence[str | Path], **options: Any) -> Iterator[str]:
    """The address of its service, which must end well; `options` are those of `Popen`."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options) as server:
        assert server.stderr is not None
        try:
            lines = (line for line in server.stderr if "listening on " in line)
            yield next(lines).partition("listening on ")[2].strip()
        finally:
            server.terminate()
            server.stderr.read()
            status = server.wait(timeout=100)
        assert status == 0
