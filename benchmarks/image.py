"""Builds the image, starts it hardened and stops it under load, like an operator; times each.

    python -m benchmarks.image

Needs docker and its daemon, and make. Without a registry, `.ci/docker python -m benchmarks.image
--network host` makes a base image first. Writes docs/results/image.json and its page.
"""

import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from loadtests.resilience.stops import Stop, stop_under_load, summary
from measuring.command_line import LoadTestError, script_options
from measuring.machine import describe_machine
from measuring.processes import READY_PATH, get
from measuring.results import RESULTS, ROOT, write
from measuring.testbed import CLIENTS

BASE = "python:3.11-slim-bookworm"
LARGEST_MB = 400
READY_SECONDS = 60
PATIENCE_SECONDS = 35
HARDENED = "--read-only --cap-drop=ALL --security-opt=no-new-privileges"
QUERIES = ("the most common elements of a list", "read a zip archive", "measure elapsed time")


def main() -> None:
    arguments = script_options(
        __doc__, tag="swiftlet", base_image=os.environ.get("BASE_IMAGE", BASE), network="",
        stops=20, seconds=2.0, raw=RESULTS / "image.json",
    )  # fmt: skip
    tag, base = arguments.tag, arguments.base_image
    network = f" NETWORK={arguments.network}" if arguments.network else ""
    build = f"make image TAG={tag} BASE_IMAGE={base}{network} DOCKER_BUILD=--no-cache"
    began = time.perf_counter()
    run(build)
    build_seconds = time.perf_counter() - began
    start = f"docker run --detach --cpus=1 --memory=256m {HARDENED} {tag}"
    with running(start) as (_, _, ready_seconds):
        pass
    stopped = summary([stop(tag, arguments.seconds) for _ in range(arguments.stops)])
    figures = {
        "template": "benchmarks/image.md.j2",
        "arguments": f" --network {arguments.network}" if arguments.network else "",
        "machine": describe_machine([], threads="one worker thread, by the quota of one core"),
        "docker": run("docker version --format '{{.Server.Version}}'").strip(),
        "build": build,
        "build_seconds": build_seconds,
        "base": base,
        "base_mb": size_mb(base),
        "beyond_base_mb": size_mb(tag) - size_mb(base),
        "largest_mb": LARGEST_MB,
        "start": start,
        "ready_seconds": ready_seconds,
        "load_seconds": arguments.seconds,
        "clients": CLIENTS,
        "stops": stopped,
    }
    print(write(arguments.raw, figures))
    if not all(bound["kept"] for bound in stopped["bounds"]):
        raise SystemExit("a bound of stopping under load was missed")


def run(command: str) -> str:
    """The output of a command that succeeds, on both channels."""
    words, both = shlex.split(command), subprocess.STDOUT
    ended = subprocess.run(
        words, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=both, text=True
    )
    if ended.returncode:
        raise SystemExit(f"{command} ended with {ended.returncode}:\n{ended.stdout}")
    return ended.stdout


@contextmanager
def running(start: str) -> Iterator[tuple[str, str, float]]:
    """A container that is ready, its own address, and the seconds from `docker run` until then.

    Published ports are no longer forwarded when a container stops; its own address still answers.
    """
    began = time.perf_counter()
    container = run(start).strip()
    try:
        found = run(f"docker inspect --format {{{{.NetworkSettings.IPAddress}}}} {container}")
        address = f"http://{found.strip()}:8000"
        while True:
            try:
                get(address + READY_PATH)
                break
            except LoadTestError:
                if time.perf_counter() - began > READY_SECONDS:
                    raise SystemExit(run(f"docker logs {container}")) from None
                time.sleep(0.02)
        yield container, address, time.perf_counter() - began
    finally:
        run(f"docker rm --force {container}")


def stop(tag: str, seconds: float) -> Stop:
    start = f"docker run --detach --env=SWIFTLET_ACCESS_LOG=true {tag}"
    with running(start) as (container, address, _):

        def docker_stop() -> int:
            run(f"docker stop -t {PATIENCE_SECONDS} {container}")
            return int(run(f"docker wait {container}"))

        log = partial(run, f"docker logs {container}")
        return stop_under_load(address, QUERIES, docker_stop, log, seconds=seconds)


def size_mb(tag: str) -> float:
    return int(run(f"docker inspect --format {{{{.Size}}}} {tag}")) / 1e6


if __name__ == "__main__":
    main()
