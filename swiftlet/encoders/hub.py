"""Encoders from the Hugging Face hub."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swiftlet import disk
from swiftlet.errors import HubError, InvalidArgumentError
from swiftlet.manifest import FILE_NAME, read_manifest, verify_files
from swiftlet.publication import check_target, published

_KINDS = ("encoder", "reranker")
_OF_DOWNLOADS = ".cache"
_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def fetch_encoder(name: str, out: Path, *, overwrite: bool = False) -> None:
    """Download an encoder or a re-ranker that `swiftlet export` wrote into the directory `out`.

    :raises InvalidArgumentError: When `out` must not be written, or the hub has another model.
    :raises ArtefactError: When what was downloaded is damaged.
    :raises HubError: When the hub refuses or cannot be reached.
    """
    from huggingface_hub import snapshot_download

    _check_name(name)
    check_target(out, overwrite=overwrite, kind="encoder")
    with published(out, overwrite=overwrite, kind="encoder") as directory:
        with _hub_errors(name):
            snapshot_download(name, local_dir=directory)
        disk.remove_tree(directory / _OF_DOWNLOADS, ignore_errors=True)
        if not (directory / FILE_NAME).is_file():
            raise InvalidArgumentError(
                f"{name} on the hub is not an encoder that Swiftlet exported: run swiftlet export "
                f"{name} --out DIRECTORY"
            )
        _check(directory)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(f"the name on the hub is {name!r}; OWNER/NAME is expected")


def _check(directory: Path) -> None:
    manifest = read_manifest(directory)
    if manifest.kind not in _KINDS:
        raise InvalidArgumentError(
            f"{directory} is of the kind {manifest.kind}; an encoder or a re-ranker is expected"
        )
    verify_files(directory, manifest)


@contextmanager
def _hub_errors(name: str) -> Iterator[None]:
    """Turn what the hub's client raises into one sentence.

    :raises HubError: When it raises anything.
    """
    try:
        yield
    except Exception as error:  # it also raises the errors of its HTTP client
        first, *_ = f"{error}".strip().splitlines() or [type(error).__name__]
        raise HubError(
            f"the hub refuses {name}: {first.rstrip('.')}; check the name, the network and "
            "HF_ENDPOINT, and log in with hf auth login or HF_TOKEN"
        ) from error
