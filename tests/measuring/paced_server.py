"""A server whose latency is known: it works on one request after the other, and at times stalls.

As soon as the file `--broken-by` is there, it answers 500. Prints its address, then the
beginning and end of every stall on the monotonic clock.
"""

import argparse
import asyncio
import os
import re
import sys
import time
from pathlib import Path

ANSWER = b"HTTP/1.1 %d -\r\nContent-Length: 2\r\nServer-Timing: work;dur=%.3f\r\n\r\n{}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--work-ms", type=float, default=0.0)
    parser.add_argument("--stall-ms", type=float, default=0.0)
    parser.add_argument("--stall-every-ms", type=float, default=1000.0)
    parser.add_argument("--close-idle-ms", type=float, default=60_000.0)
    parser.add_argument("--broken-by", type=Path, default=Path("never"))
    parser.add_argument("--end-after", type=int, default=0, help="requests")
    asyncio.run(serve(parser.parse_args()))


async def serve(options: argparse.Namespace) -> None:
    answered = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        try:
            while True:
                async with asyncio.timeout(options.close_idle_ms / 1000):
                    head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head.lower())
                await reader.readexactly(int(length[1]) if length else 0)
                time.sleep(options.work_ms / 1000)  # for everybody: there is one after the other
                status = 500 if options.broken_by.exists() else 200
                writer.write(ANSWER % (status, options.work_ms))
                answered += 1
                if answered == options.end_after:
                    os._exit(0)  # at once, since other connections may have requests already
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", options.port, backlog=1024)
    say(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    while True:
        await asyncio.sleep(options.stall_every_ms / 1000)
        began = time.monotonic()
        time.sleep(options.stall_ms / 1000)
        if options.stall_ms:
            say(f"{began} {time.monotonic()}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
