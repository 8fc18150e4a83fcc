"""The systems under test: `swiftlet serve` of each index, and other services beside it."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from measuring.command_line import LoadTestError
from measuring.processes import READY_PATH, Service, get, running, swiftlet_command, words_of
from measuring.testbed import demo_index, num_passages
from swiftlet.manifest import read_manifest

CACHE_SETTING = "SWIFTLET_CACHE_BYTES"


@dataclass(frozen=True, slots=True)
class SystemUnderTest:
    """A service to measure; `describe` lists the artefacts that a running one serves."""

    name: str
    command: str
    ready_path: str
    start: Callable[[], AbstractContextManager[Service]]
    describe: Callable[[Service], Sequence[str]] = lambda _service: ()


def systems_under_test(
    options: argparse.Namespace, cores: Sequence[int]
) -> Iterator[SystemUnderTest]:
    """The systems that `options` name; without any, the demo's index, which is built if needed.

    :param cores: The cores of a service.
    :raises LoadTestError: When an index, a setting or a service is not of the form expected.
    """
    settings = dict(_split(setting, "--setting", "NAME=VALUE") for setting in options.setting)
    # After the last query they repeat, and a cache would hide the encoder's time.
    settings.setdefault(CACHE_SETTING, "0")
    named = [_split(other, "--service", "NAME=COMMAND") for other in options.service]
    indexes = [_named_index(index) for index in options.index]
    for index, _ in indexes:
        num_passages(index)
    for _, command in named:
        words_of(command)
    encoders = options.encoder or [None]
    served = product([name for _, name in indexes], encoders)
    _check_names([_with_encoder(*each) for each in served] + [name for name, _ in named])
    if not indexes and not named:
        indexes = [(demo_index(cores, options.start_timeout), "demo")]
    start = partial(running, cores=cores, start_timeout=options.start_timeout)
    words = [f"{name}={value}" for name, value in settings.items()]
    for (index, name), encoder in product(indexes, encoders):
        title = _with_encoder(f"{name}, {num_passages(index):,} passages", encoder)
        command = swiftlet_command(index, encoder)
        shown = " ".join([*words, command.replace(sys.executable, "python")])
        started = partial(start, command, settings=settings)
        yield SystemUnderTest(title, shown, READY_PATH, started, partial(_describe, index))
    for name, command in named:
        ready = options.service_ready
        yield SystemUnderTest(name, command, ready, partial(start, command, ready_path=ready))


def _describe(index: Path, service: Service) -> list[str]:
    """The index from its manifest, the encoder and versions from the service."""
    manifest = read_manifest(index, "index")
    details = manifest.details
    served = json.loads(get(f"{service.address}/info"))
    encoder, versions = served["encoder"], served["versions"]
    return [
        f"index {manifest.fingerprint}, by {manifest.created_by}",
        f"{details['num_documents']:,} documents, {details['num_passages']:,} passages",
        f"{details['factory']}, {manifest.dim} dimensions",
        *(f"{file}: {entry.algorithm} {entry.digest}" for file, entry in manifest.files.items()),
        f"query encoder {encoder['fingerprint']}: {encoder['name']}, {encoder['precision']}",
        f"threads: {served['threads']}",
        "versions: " + ", ".join(f"{package} {found}" for package, found in versions.items()),
    ]


def _check_names(names: Sequence[str]) -> None:
    """Check that each name is valid in a table, and there once."""
    for name in names:
        if "|" in name or not name.isprintable() or not name.strip():
            expected = "letters or digits, and no '|', are expected"
            raise LoadTestError(f"the name {name!r} is given; {expected}")
    if len(set(names)) < len(names):
        raise LoadTestError(f"two of the services have the same name: {', '.join(names)}")


def _with_encoder(name: str, encoder: Path | None) -> str:
    return f"{name}, {encoder.name}" if encoder else name


def _named_index(option: str) -> tuple[Path, str]:
    name, separator, directory = option.rpartition("=")
    path = Path(directory)
    return path, name if separator else path.resolve().name


def _split(option: str, argument: str, expected: str) -> tuple[str, str]:
    name, separator, value = option.partition("=")
    if not separator or not name or not value:
        raise LoadTestError(f"{argument} {option!r} is given; {expected} is expected")
    return name, value
