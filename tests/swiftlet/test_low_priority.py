"""The process that encodes documents leaves the processor to searches, but for its share."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from time import process_time

import pytest

from swiftlet.errors import ArtefactError
from swiftlet.processors.low_priority import LowPriorityProcess


def worked(seconds: float) -> int:
    """The nice value of a thread that has used `seconds` of processor time."""
    end = process_time() + seconds
    while process_time() < end:
        pass
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.fixture
def _one_core() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("_one_core")
def test_a_call_within_the_share_ends_beside_busy_processes():
    with (
        closing(LowPriorityProcess("prompt", share=0.1)) as prompt,
        closing(LowPriorityProcess("patient")) as patient,
        ExitStack() as stack,
    ):
        assert (prompt.call(worked, 0), patient.call(worked, 0)) == (os.getpriority(0, 0), 19)
        pool = stack.enter_context(ThreadPoolExecutor(1))
        for _ in range(2):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(loop.kill)
        long = pool.submit(patient.call, worked, 0.1)
        prompt.call(worked, 0.1)
        assert not long.done()
        patient.end()
        with pytest.raises(ArtefactError):
            long.result()


def test_calls_beyond_the_share_have_the_lowest_priority():
    with closing(LowPriorityProcess("encode", share=0.001)) as process:
        assert [process.call(worked, 0.1), process.call(worked, 0)] == [os.getpriority(0, 0), 19]
