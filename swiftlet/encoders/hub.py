"""Encoders to the Hugging Face hub and from there."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swiftlet import disk
from swiftlet.errors import HubError, InvalidArgumentError
from swiftlet.manifest import FILE_NAME, Manifest, read_manifest, verify_files
from swiftlet.publication import check_target, published

_CARD = "README.md"
_KINDS = ("encoder", "reranker")
_OF_DOWNLOADS, _SHOWN_ID = ".cache", 12
_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def push_to_hub(directory: Path, name: str, *, private: bool = False) -> str:
    """Upload an encoder or a re-ranker, and return the address of its page.

    The directory is one that `swiftlet export` wrote, or a model of Sentence Transformers, such as
    the encoders in a training run. Without a README.md, it gets a short one.

    :param name: The name of the model on the hub, "owner/name"; it is made if there is none.
    :raises InvalidArgumentError: When the directory has no such model.
    :raises ArtefactError: When it is damaged.
    :raises HubError: When the hub refuses or cannot be reached.
    """
    from huggingface_hub import HfApi

    _check_name(name)
    card = _card(directory, name)
    hub = HfApi()
    with _hub_errors(name):
        address = hub.create_repo(name, private=private, exist_ok=True)
        if not (directory / _CARD).is_file():
            hub.upload_file(path_or_fileobj=card.encode(), path_in_repo=_CARD, repo_id=name)
        hub.upload_folder(folder_path=directory, repo_id=name)
    return str(address)


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


def _card(directory: Path, name: str) -> str:
    if (directory / FILE_NAME).is_file():
        manifest = _check(directory)
        details = manifest.details
        facts = {
            "dimensions of an embedding": manifest.dim if manifest.kind == "encoder" else None,
            "tokens of a text that are read": details.get("max_tokens"),
            "precisions": ", ".join(details.get("precisions", ())),
            "mean cosine with the model": ", ".join(
                f"{precision} {measured['mean_cosine']:.4f}"
                for precision, measured in details.get("parity", {}).items()
                if "mean_cosine" in measured
            ),
            "id of the embedding space": manifest.embedding_space[:_SHOWN_ID],
        }
        rows = "".join(f"| {fact} | {value} |\n" for fact, value in facts.items() if value)
        about = (
            f"{details['name']}, {manifest.kind} of Swiftlet in ONNX, made from "
            f"{details['source']}.\n\n| | |\n|---|---|\n{rows}\n"
            f"    swiftlet encoders get {name}\n"
        )
        tags = "onnx"
    elif (directory / "modules.json").is_file():
        about = f'    SentenceTransformer("{name}")\n'
        tags = "sentence-transformers"
    else:
        raise InvalidArgumentError(
            f"{directory} has neither {FILE_NAME} nor modules.json: an encoder or a re-ranker is "
            "expected, such as RUN/onnx/query_encoder or RUN/query_encoder"
        )
    return f"---\ntags: [{tags}, swiftlet]\n---\n\n# {name.rpartition('/')[2]}\n\n{about}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(f"the name on the hub is {name!r}; OWNER/NAME is expected")


def _check(directory: Path) -> Manifest:
    manifest = read_manifest(directory)
    if manifest.kind not in _KINDS:
        raise InvalidArgumentError(
            f"{directory} is of the kind {manifest.kind}; an encoder or a re-ranker is expected"
        )
    verify_files(directory, manifest)
    return manifest


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
