"""`swiftlet up` in a process, as its users start it."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.polling import is_answered, wait_until


@contextmanager
def up(
    folder: Path, cache: Path, *command: str | Path, options: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the address of a folder that is up."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    if is_bare := bool(command):
        environment.pop("PYTHONPATH", None)
    command = command or (sys.executable, "-m", "swiftlet")
    for earlier in cache.glob("swiftlet/folders/*/address"):
        earlier.unlink()  # by a process that was killed
    with subprocess.Popen(
        [*command, "up", folder, "--port", "0", *options], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env=environment,
    ) as process:  # fmt: skip
        try:
            place = wait_until(
                lambda: [*cache.glob("swiftlet/folders/*/address")] or process.poll()
            )
            assert process.poll() is None
            address = wait_until(place[0].read_text)
            wait_until(lambda: is_answered(f"{address}/health/ready"))
            yield process, address
        finally:
            process.terminate()
            assert process.stdout is not None
            said = process.stdout.read()
            assert "status None" not in said  # of the process that follows
            notes = [line for line in said.splitlines() if line.startswith("Note: ")]
            assert len(notes) == len({*notes})
            if is_bare:  # of an environment without the extra `mcp`
                assert any("no tools for language models" in note for note in notes)


def answer(url: str) -> Any:
    with urllib.request.urlopen(url) as found:
        return json.load(found)


def first_of(address: str, query: str) -> str | None:
    hits = answer(f"{address}/search?q={query}&top_k=1")["hits"]
    return hits[0]["document_id"] if hits else None
