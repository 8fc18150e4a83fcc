"""The image as an operator meets it: build it, run it, ask it, stop it under load.

    python benchmarks/image.py

Needs docker and its daemon, make, curl, and a port that is free. Where there is no registry,
`.ci/docker python benchmarks/image.py --network host` makes a base image first. Writes
docs/results/image.md.
"""

import argparse
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from image_stop import Stop, stop_under_load
from processes import ROOT

from evaluation.machine import describe_machine
from evaluation.markdown import table

LARGEST_MB = 400
READY_SECONDS = 60
HARDENED = "--read-only --cap-drop=ALL --security-opt=no-new-privileges"
LAYER = "{{.Size}}\t{{.CreatedBy}}"
UNITS = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}
LONGEST_LINE = 100


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
    with running(start, arguments.port) as (container, ready_seconds):
        curl = readme_curl().replace(":8080", f":{arguments.port}")
        answer = run(curl)
        user = run(f"docker exec {container} python3 -c 'import os; print(os.getuid())'")
        changed = run(f"docker diff {container}")
    stops = [
        stop_under_load(tag, seconds=arguments.seconds, clients=arguments.clients)
        for _ in range(arguments.stops)
    ]
    small = f"docker run --rm --cpus=1 --memory=64m {tag}"
    page = WORDS.format(
        arguments="".join(f" {word}" for word in arguments.shown),
        machine=describe_machine([], threads="one worker thread, by the quota of one core"),
        docker=run("docker version --format '{{.Server.Version}}'").strip(),
        build=build,
        steps="\n".join(shortened(line) for line in built if line.startswith(("Step", "Success"))),
        build_seconds=f"{build_seconds:.0f}",
        layers=layer_table(tag, base),
        start=start,
        ready_seconds=f"{ready_seconds:.1f}",
        curl=curl,
        answer=answer.strip(),
        user=user.strip(),
        changed="nothing" if not changed.strip() else changed,
        stops=stop_table(stops),
        clients=arguments.clients,
        seconds=f"{arguments.seconds:g}",
        small=small,
        refusal=run(small, status=2).splitlines()[-1],
    )
    arguments.page.write_text(page, "utf-8")
    print(page)
    if any(stop.lost or stop.exit_status for stop in stops):
        raise SystemExit("a stop lost requests, or did not end well")


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
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results" / "image.md")
    arguments = parser.parse_args()
    arguments.shown = ["--network", arguments.network] if arguments.network else []
    return arguments


def run(command: str, *, status: int = 0) -> str:
    """What a command prints, on both channels; it must end with `status`."""
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
def running(start: str, port: int) -> Iterator[tuple[str, float]]:
    """A container that is ready, and the seconds from `docker run` until then."""
    began = time.perf_counter()
    container = run(start).strip()
    try:
        ready = ["curl", "--silent", "--fail", f"http://127.0.0.1:{port}/health/ready"]
        while subprocess.run(ready, check=False, stdout=subprocess.DEVNULL).returncode:
            if time.perf_counter() - began > READY_SECONDS:
                raise SystemExit(run(f"docker logs {container}"))
            time.sleep(0.02)
        yield container, time.perf_counter() - began
    finally:
        run(f"docker rm --force {container}")


def layer_table(tag: str, base: str) -> str:
    """The layers that have a size, the base image's as one, and their sum."""
    layers = run(f"docker history --no-trunc --format '{LAYER}' {tag}").splitlines()
    base_layers = run(f"docker history --quiet {base}").splitlines()
    own = [line.split("\t", 1) for line in layers[: -len(base_layers)]]
    sizes = {described(command): megabytes(size) for size, command in reversed(own)}
    base_mb = int(run(f"docker inspect --format '{{{{.Size}}}}' {base}")) / 1e6
    rows = [[f"`{base}`", f"{base_mb:.1f}"]]
    rows += [[name, f"{size:.1f}"] for name, size in sizes.items() if size >= 0.05]
    rows.append([f"**beyond the base** (at most {LARGEST_MB})", f"{sum(sizes.values()):.1f}"])
    return table([["layer", "MB"], *rows])


def described(command: str) -> str:
    """What made a layer, in a word or two: the folder that was copied, or the instruction."""
    copied = re.search(r"COPY.* (/opt/\S+)", command)
    return f"`{copied[1]}`" if copied else "no pip; bytecode of the standard library"


def megabytes(size: str) -> float:
    """A size as `docker history` writes it."""
    number, unit = re.fullmatch(r"([0-9.]+)(\w+)", size).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit]


def stop_table(stops: Sequence[Stop]) -> str:
    """One row for all stops, since each must be as the others."""
    answers: dict[int, int] = {}
    for stop in stops:
        for status, count in stop.answers.items():
            answers[status] = answers.get(status, 0) + count
    seconds = [stop.seconds for stop in stops]
    return table(
        [
            ["stopped under load", f"{len(stops)} times"],
            *([f"answers {status}", f"{count:,}"] for status, count in sorted(answers.items())),
            ["requests lost, read by the service or not", lost_of(stops)],
            ["exit statuses", ", ".join(map(str, sorted({stop.exit_status for stop in stops})))],
            ["seconds that `docker stop` took, at most", f"{max(seconds):.1f}"],
        ]
    )


def lost_of(stops: Sequence[Stop]) -> str:
    return str(sum(stop.lost for stop in stops))


def shortened(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


WORDS = """\
# The image

Made by `python benchmarks/image.py{arguments}`. {machine} Docker {docker}.

## Building

```
$ {build}
{steps}
```

{build_seconds} s, with nothing from an earlier build, the demo's index included.

{layers}

## Running

```
$ {start}
$ {curl}
{answer}
```

{ready_seconds} s from `docker run` to the first 200 of `/health/ready`. Its process has the user id
{user}, and has changed {changed} in the file system of the container.

## Stopping under load

`docker stop` while {clients} clients search, each asking again as soon as it has its answer, after
{seconds} s of load. A request is lost if it was sent and no answer came, or another than the
service says in its access log, by request id; whether the service had read it makes no difference.

{stops}

## Too little memory

```
$ {small}
{refusal}
```
"""


if __name__ == "__main__":
    main()
