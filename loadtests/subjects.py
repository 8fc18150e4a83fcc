"""The services that a load test measures: `swiftlet serve` of each index, and others beside it."""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from loadtests.command_line import LoadTestError
from loadtests.machine import read_manifest
from loadtests.measure import Plan, Subject, file_name
from loadtests.processes import Service, get, running, swiftlet_command, words_of

READY_PATH = "/health/ready"
CACHE_SETTING = "SWIFTLET_CACHE_BYTES"
DEMO_FOLDER = Path(".demo")


def subjects(options: argparse.Namespace, plan: Plan) -> Iterator[Subject]:
    """What `options` ask for; of the demo's index, which is built, if they ask for none.

    :raises LoadTestError: When an index, a setting or a service is not what its option takes.
    """
    settings = dict(_split(setting, "--setting", "NAME=VALUE") for setting in options.setting)
    if not plan.mix.cached:
        # Queries come again when all have been asked, and a cache would answer for the encoder.
        settings.setdefault(CACHE_SETTING, "0")
    named = [_split(other, "--service", "NAME=COMMAND") for other in options.service]
    indexes = [_named_index(index) for index in options.index]
    for index, _ in indexes:
        _passages(index)
    for _, command in named:
        words_of(command)
    _check_names([name for _, name in indexes] + [name for name, _ in named])
    if not indexes and not named:
        indexes = [(_demo_index(plan, options.start_timeout), "demo")]
    for index, name in indexes:
        yield _swiftlet(index, name, settings, options, plan)
    for name, command in named:
        start = partial(
            running,
            command,
            ready_path=options.service_ready,
            cores=plan.service_cores,
            start_timeout=options.start_timeout,
        )
        yield Subject(name, command, options.service_ready, start)


def _swiftlet(
    index: Path,
    name: str,
    settings: dict[str, str],
    options: argparse.Namespace,
    plan: Plan,
) -> Subject:
    command = swiftlet_command(index, options.encoder)
    start = partial(
        running,
        command,
        ready_path=READY_PATH,
        cores=plan.service_cores,
        settings=settings,
        start_timeout=options.start_timeout,
    )
    return Subject(
        f"{name}, {_passages(index):,} passages",
        _shown(command, settings),
        READY_PATH,
        start,
        partial(_describe, index),
    )


def _describe(index: Path, service: Service) -> list[str]:
    """The index as its manifest says, the encoder as the service does."""
    manifest = read_manifest(index)
    details = manifest["details"]
    served = json.loads(get(f"{service.address}/info"))
    encoder, versions = served["encoder"], served["versions"]
    return [
        f"index {manifest['checksum']}, by {manifest['created_by']}",
        f"{details['num_documents']:,} documents, {details['num_passages']:,} passages",
        f"{details['factory']}, {manifest['dim']} dimensions",
        *(f"{file}: sha256 {entry['sha256']}" for file, entry in manifest["files"].items()),
        f"query encoder {encoder['fingerprint']}: {encoder['name']}, {encoder['precision']}",
        f"threads: {served['threads']}",
        "versions: " + ", ".join(f"{package} {found}" for package, found in versions.items()),
    ]


def _demo_index(plan: Plan, start_timeout: float) -> Path:
    """The index of `swiftlet demo`, which builds it unless it is there."""
    words = [sys.executable, "-m", "swiftlet", "demo", "--directory", str(DEMO_FOLDER)]
    command = f"{shlex.join(words)} --port {{port}}"
    cores = {*plan.service_cores, *plan.generator_cores}
    # To build it takes longer than to start.
    timeout = max(600.0, start_timeout)
    with running(command, ready_path=READY_PATH, cores=cores, start_timeout=timeout):
        pass
    indexes = sorted(
        DEMO_FOLDER.glob("*/manifest.json"), key=lambda manifest: manifest.stat().st_mtime
    )
    return indexes[-1].parent


def _passages(index: Path) -> int:
    try:
        passages: int = read_manifest(index)["details"]["num_passages"]
    except (KeyError, TypeError) as error:
        raise LoadTestError(f"{index} is no index: its manifest has no num_passages") from error
    return passages


def _check_names(names: Sequence[str]) -> None:
    """See to it that each is good for a table and for files of its own."""
    for name in names:
        if "|" in name or not name.isprintable() or not file_name(name):
            raise LoadTestError(
                f"the name {name!r} is given; letters or digits, and no '|', are expected"
            )
    files = [file_name(name) for name in names]
    if len(set(files)) < len(files):
        raise LoadTestError(f"two of the services have the same name: {', '.join(names)}")


def _named_index(option: str) -> tuple[Path, str]:
    name, separator, directory = option.rpartition("=")
    path = Path(directory)
    return path, name if separator else path.resolve().name


def _split(option: str, argument: str, expected: str) -> tuple[str, str]:
    name, separator, value = option.partition("=")
    if not separator or not name or not value:
        raise LoadTestError(f"{argument} {option!r} is given; {expected} is expected")
    return name, value


def _shown(command: str, settings: dict[str, str]) -> str:
    words = [f"{name}={value}" for name, value in settings.items()]
    return " ".join([*words, command.replace(sys.executable, "python")])
