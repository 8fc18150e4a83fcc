"""Exports a Router of Sentence Transformers, which has an encoder of queries and one of documents.

The two may have different architectures and tokenizers.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from export.encoder_directory import export_encoder
from export.errors import ExportError
from export.settings import Announce, EncoderSettings, silent
from export.source import load_source
from swiftlet.encoders.encoder import Role
from swiftlet.manifest import Manifest
from swiftlet.publication import check_target
from training.model.errors import ModelError
from training.model.folders import (
    MODULES,
    ROUTER_CONFIG,
    find_model,
    is_router,
    read_json,
)
from training.model.trained import TOWERS

_ROUTES = ("query", "document")
_ROLES: tuple[Role, Role] = ("query", "passage")


def export_router(
    model: str | Path,
    out: Path,
    settings: EncoderSettings | None = None,
    *,
    overwrite: bool = False,
    progress: Announce = silent,
    **options: Any,
) -> dict[str, Manifest]:
    """Write the encoders `query_encoder` and `document_encoder` of a Router into the folder `out`.

    :param options: Fields of the settings, which may be given so.
    :returns: The manifest of each.
    :raises ModelError: When the model is no Router, or has other sides.
    :raises ExportError: When the sides differ in width.
    :raises RetrievalError: As `export_encoder`.
    """
    chosen = replace(settings or EncoderSettings(), **options)
    folder = find_model(model)
    if not is_router(folder):
        raise ModelError(f"{folder} is no Router of two encoders: export it as an encoder")
    name = chosen.name or folder.resolve().name
    for tower in TOWERS:
        check_target(out / tower, overwrite=overwrite, kind="encoder")
    with _sides(folder) as sides:
        widths = [load_source(side, dim=chosen.dim).dim for side in sides]
        if widths[0] != widths[1]:
            raise ExportError(
                f"{folder} gives {widths[0]} numbers for a query, but {widths[1]} for a document: "
                "add a Dense module to one of its sides"
            )
        manifests: dict[str, Manifest] = {}
        chosen = replace(chosen, origin=name)
        # The document encoder comes first: both encoders have its space.
        for tower, side, role in [*zip(TOWERS, sides, _ROLES, strict=True)][::-1]:
            progress(f"The {tower.replace('_', ' ')}")
            own = replace(chosen, name=f"{name}-{tower.replace('_', '-')}", role=role)
            manifests[tower] = export_encoder(
                side, out / tower, own, overwrite=overwrite, progress=progress
            )
            chosen = replace(chosen, space=manifests[tower].embedding_space)
    return manifests


@contextmanager
def _sides(folder: Path) -> Iterator[list[Path]]:
    """The sides of a Router as models of Sentence Transformers, queries first."""
    router = read_json(folder / ROUTER_CONFIG)
    structure, types = router["structure"], router["types"]
    if not set(_ROUTES) <= structure.keys():
        raise ModelError(
            f"{folder} is a Router for {', '.join(structure)}, but one for {' and '.join(_ROUTES)} "
            "is expected"
        )
    _, *others = read_json(folder / MODULES)
    with tempfile.TemporaryDirectory() as place:
        sides = [Path(place) / tower for tower in TOWERS]
        for route, side in zip(_ROUTES, sides, strict=True):
            side.mkdir()
            own = [{"type": types[path], "path": path} for path in structure[route]]
            modules = [
                {**module, "idx": number, "name": f"{number}"}
                for number, module in enumerate([*own, *others])
            ]
            (side / MODULES).write_text(json.dumps(modules))
            for path in [*structure[route], *(module["path"] for module in others)]:
                (side / path).symlink_to((folder / path).resolve())
            settings = folder / "config_sentence_transformers.json"
            if settings.is_file():
                (side / settings.name).symlink_to(settings.resolve())
        try:
            yield sides
        except (ExportError, ModelError) as error:
            sentence = f"{error}"
            for side in sides:
                sentence = sentence.replace(f"{side}", f"{folder}")
            raise type(error)(sentence) from error
