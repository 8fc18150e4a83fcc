"""The command line in processes of its own, which can be killed and limited.

They are forked from a server that has imported everything once, so that each starts at once.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

from sentence_transformers.sentence_transformer import modules
from transformers import BertModel, RobertaModel

import swiftlet.cli.main
import training.train
from swiftlet.__main__ import main

# The server imports these, so that the processes that it forks need not.
IMPORTED = (modules, BertModel, RobertaModel, swiftlet.cli.main, training.train)
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


class Command:
    """A running `swiftlet …`."""

    def __init__(
        self,
        *arguments: object,
        output: Path,
        memory_bytes: int | None = None,
    ) -> None:
        """Start it; what it prints goes to `output`.

        :param memory_bytes: How much more memory than at its start it may have.
        """
        self.output = output
        self._process: BaseProcess = _CONTEXT.Process(
            target=_run,
            args=([*map(str, arguments)], output, memory_bytes),
            daemon=True,
        )
        self._process.start()

    def wait(self) -> int:
        """Wait until it ends; its exit status, negative for a signal."""
        self._process.join(timeout=250)
        if self._process.exitcode is None:
            self._process.kill()
            raise AssertionError(f"the command does not end: {self.text}")
        return self._process.exitcode

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds that the command brings about."""
        deadline = time.monotonic() + 250
        while not condition():
            assert self._process.is_alive(), f"the command ended before: {self.text}"
            assert time.monotonic() < deadline
            time.sleep(0.002)

    @property
    def text(self) -> str:
        """Its output so far."""
        return self.output.read_text("utf-8")

    @property
    def refusal(self) -> str:
        """The one sentence that it ended with."""
        sentences = [line for line in self.text.splitlines() if line.startswith("swiftlet: ")]
        assert len(sentences) == 1, self.text
        assert "Traceback" not in self.text
        return sentences[0].removeprefix("swiftlet: ")


def _run(arguments: list[str], output: Path, memory_bytes: int | None) -> None:
    import torch

    os.environ.update({"OMP_NUM_THREADS": "1", "COLUMNS": "200"})
    torch.set_num_threads(1)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(written, 1)
    os.dup2(written, 2)
    # The server ignores it, and leaves that to those that it forks.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if memory_bytes is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        bound = pages * resource.getpagesize() + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    sys.argv = ["swiftlet", *arguments]
    main()
