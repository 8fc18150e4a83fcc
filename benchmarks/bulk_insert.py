"""Requests against a bulk insert, in turn: python -m benchmarks.bulk_insert INDEX

Pushes INDEX twice in each way to a Milvus server that this starts, which reads the files from a
folder. Prints the seconds in which passages were written, and the processor seconds in them.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import psutil

from measuring.machine import describe_machine
from measuring.milvus_server import MilvusServer
from swiftlet.progress import Silence
from swiftlet.servers.push import push


class Written(Silence):
    """The seconds, our processor seconds and the server's, at the begin and end of the writing."""

    def __init__(self, server: psutil.Process) -> None:
        self._server, self.times = server, list[tuple[float, float, float]]()
        self._is_writing = False

    def begin(self, name: str, *_: object) -> None:
        """Look at the clocks when the writing begins, and when the next part does."""
        is_writing = name == "Pushing passages"
        if is_writing or self._is_writing:
            used = [each.cpu_times() for each in self._server.children(recursive=True)]
            server = sum(each.user + each.system for each in used)
            self.times.append((perf_counter(), process_time(), server))
        self._is_writing = is_writing


with TemporaryDirectory() as folder:
    server = MilvusServer("whole", Path(folder))
    server.start()
    assert server.process is not None
    try:
        for place in (None, f"{folder}/files", None, f"{folder}/files"):
            progress = Written(psutil.Process(server.process.pid))
            pushed = push(
                Path(sys.argv[1]), server.address("bulk"), bulk_insert=place, overwrite=True,
                progress=progress,
            )  # fmt: skip
            seconds, ours, its = (end - begin for begin, end in zip(*progress.times, strict=True))
            print(
                f"{'requests' if place is None else 'files'}: {pushed.num_passages} passages in "
                f"{seconds:.1f} s; processor {ours:.1f} s here, {its:.1f} s of the server",
                flush=True,
            )
    finally:
        server.kill()
print(describe_machine(["pymilvus", "milvus", "pyarrow"], threads="2"))
