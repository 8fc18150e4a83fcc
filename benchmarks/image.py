"""Tests and times the image like an operator: build, run, search, stop under load.

    python -m benchmarks.image

Needs docker and its daemon, make, curl, and a port that is free. Without a registry,
`.ci/docker python -m benchmarks.image --network host` makes a base image first. Writes
docs/results/image.json and its page.
"""

import argparse
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from loadtests.command_line import LoadTestError
from loadtests.processes import READY_PATH, get
from loadtests.resilience.stops import CLIENTS, Stop, stop_under_load, summary
from loadtests.results import RESULTS, ROOT, write
from swiftlet.evaluation.machine import describe_machine

LARGEST_MB = 400
READY_SECONDS = 60
PATIENCE_SECONDS = 35
HARDENED = "--read-only --cap-drop=ALL --security-opt=no-new-privileges"
LAYER = "{{.Size}}\t{{.CreatedBy}}"
ADDRESS = "{{.NetworkSettings.IPAddress}}"
UNITS = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}
LONGEST_LINE = 100
QUERIES = ("the most common elements of a list", "read a zip archive", "measure elapsed time")


def main() -> None:
    arguments = parse_arguments()
    tag, base = arguments.tag, arguments.base_image
    network = f" NETWORK={arguments.network}" if arguments.network else ""
    began = time.perf_counter()
    build = f"make image TAG={tag} BASE_IMAGE={base}{network} DOCKER_BUILD=--no-cache"
    built = run(build).splitlines()
    build_seconds = time.perf_counter() - began

    publish = f"--publish=127.0.0.1:{arguments.port}:8000"
    start = f"docker run --detach --cpus=1 --memory=256m {HARDENED} {publish} {tag}"
    with running(start, f"http://127.0.0.1:{arguments.port}") as (container, ready_seconds):
        curl = readme_curl().replace(":8080", f":{arguments.port}")
        answer = run(curl)
        user = run(f"docker exec {container} python3 -c 'import os; print(os.getuid())'")
        changed = run(f"docker diff {container}")
    stops = [stop(tag, arguments.seconds) for _ in range(arguments.stops)]
    small = f"docker run --rm --cpus=1 --memory=64m {tag}"
    stopped = summary(stops)
    figures = {
        "template": "benchmarks/image.md.j2",
        "arguments": f" --network {arguments.network}" if arguments.network else "",
        "machine": describe_machine([], threads="one worker thread, by the quota of one core"),
        "docker": run("docker version --format '{{.Server.Version}}'").strip(),
        "build": build,
        "steps": [shortened(line) for line in built if line.startswith(("Step", "Success"))],
        "build_seconds": build_seconds,
        "layers_mb": layers(tag, base),
        "largest_mb": LARGEST_MB,
        "start": start,
        "ready_seconds": ready_seconds,
        "curl": curl,
        "answer": answer.strip(),
        "user": user.strip(),
        "changed": changed.strip() or "nothing",
        "load_seconds": arguments.seconds,
        "clients": CLIENTS,
        "stops": stopped,
        "small": small,
        "refusal": run(small, status=2).splitlines()[-1],
    }
    print(write(arguments.raw, figures))
    if not all(bound["kept"] for bound in stopped["bounds"]):
        raise SystemExit("a bound of stopping under load was missed")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", default="swiftlet")
    parser.add_argument(
        "--base-image", default=os.environ.get("BASE_IMAGE", "python:3.11-slim-bookworm")
    )
    parser.add_argument("--network", default="", help="that `docker build` uses")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.0, help="of load before a stop")
    parser.add_argument("--raw", type=Path, default=RESULTS / "image.json")
    return parser.parse_args()


def run(command: str, *, status: int = 0) -> str:
    """The output of a command, on both channels; it must end with `status`."""
    result = subprocess.run(
        shlex.split(command),
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode != status:
        raise SystemExit(f"{command} ended with {result.returncode}:\n{result.stdout}")
    return result.stdout


def readme_curl() -> str:
    """The README's search."""
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    return next(line for line in lines if line.startswith("curl "))


@contextmanager
def running(start: str, address: str = "") -> Iterator[tuple[str, float]]:
    """A container that is ready, and the seconds from `docker run` until then.

    Without `address`, requests go to the container's own address.
    """
    began = time.perf_counter()
    container = run(start).strip()
    try:
        address = address or address_of(container)
        while True:
            try:
                get(address + READY_PATH)
                break
            except LoadTestError:
                if time.perf_counter() - began > READY_SECONDS:
                    raise SystemExit(run(f"docker logs {container}")) from None
                time.sleep(0.02)
        yield container, time.perf_counter() - began
    finally:
        run(f"docker rm --force {container}")


def address_of(container: str) -> str:
    """The container's own address; published ports are no longer forwarded when it stops."""
    return f"http://{run(f'docker inspect --format {ADDRESS} {container}').strip()}:8000"


def stop(tag: str, seconds: float) -> Stop:
    """Start a container, load it for some seconds, and stop it."""
    with running(f"docker run --detach --env=SWIFTLET_ACCESS_LOG=true {tag}") as (container, _):

        def docker_stop() -> int:
            run(f"docker stop -t {PATIENCE_SECONDS} {container}")
            return int(run(f"docker wait {container}"))

        log = partial(run, f"docker logs {container}")
        address = address_of(container)
        return stop_under_load(
            address, QUERIES, docker_stop, lambda: log().splitlines(), seconds=seconds
        )


def layers(tag: str, base: str) -> dict[str, float]:
    """The size of each layer that has one, and of the base image as one, in MB."""
    lines = run(f"docker history --no-trunc --format '{LAYER}' {tag}").splitlines()
    base_layers = run(f"docker history --quiet {base}").splitlines()
    own = [line.split("\t", 1) for line in lines[: -len(base_layers)]]
    base_mb = int(run(f"docker inspect --format '{{{{.Size}}}}' {base}")) / 1e6
    sizes = {described(command): megabytes(size) for size, command in reversed(own)}
    return {f"`{base}`": base_mb, **sizes}


def described(command: str) -> str:
    """The origin of a layer: the folder that was copied, or the instruction."""
    copied = re.search(r"COPY.* (/opt/\S+)", command)
    return f"`{copied[1]}`" if copied else "no pip; bytecode of the standard library"


def megabytes(size: str) -> float:
    """A size as `docker history` writes it."""
    number, unit = re.fullmatch(r"([0-9.]+)(\w+)", size).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit]


def shortened(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


if __name__ == "__main__":
    main()
