"""Opens an encoder: a directory, a function, or an address that is asked."""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from swiftlet import encoders
from swiftlet.arguments import StrPath, path_of
from swiftlet.encoders.encoder import ModelEncoder, OnnxEncoder, Precision, Role
from swiftlet.encoders.function import FunctionEncoder, InTurn
from swiftlet.encoders.remote import EncoderAddress, Endpoint
from swiftlet.errors import InvalidArgumentError

TextFunction = Callable[[list[str]], Any]
"""Gives a list of texts their embeddings: an array (n, dim), or n lists of numbers."""

_IS_ADDRESS = re.compile("https?:", re.IGNORECASE)
_IS_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class EncoderFunction:
    """A function of texts: one that is given, or MODULE:FUNCTION."""

    name: str
    function: TextFunction | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.name

    def load(self) -> TextFunction:
        """The function, which is imported unless it is given.

        :raises InvalidArgumentError: When the import fails, or finds no function.
        """
        if self.function is not None:
            return self.function
        module, _, name = self.name.partition(":")
        if (folder := os.getcwd()) not in sys.path:  # noqa: PTH109 - as sys.path has it
            sys.path.append(folder)
        try:
            found: Any = reduce(getattr, name.split("."), import_module(module))
        except Exception as error:  # whatever the module raises
            raise InvalidArgumentError(
                f"the encoder {self.name} cannot be imported: {type(error).__name__}: {error}"
            ) from error
        if not callable(found):
            raise InvalidArgumentError(f"the encoder {self.name} is no function of texts")
        function: TextFunction = found
        return function


Place = Path | EncoderAddress | EncoderFunction
"""Where an encoder is."""

EncoderSpec = StrPath | TextFunction | Place
"""What stands for an encoder: a directory or a name, a function, or an address."""


def is_asked(encoder: str) -> bool:
    """Whether a text names a function or an address, which are asked, and no directory."""
    is_function = _IS_FUNCTION.fullmatch(encoder) and not Path(encoder).exists()
    return bool(_IS_ADDRESS.match(encoder) or is_function)


def encoder_place(encoder: EncoderSpec | None) -> Place | None:
    """Where an encoder is that is named by a user; None stays None.

    The key of the environment goes to the address that is named here, and to no other.

    :raises InvalidArgumentError: When it is none of these, or the name of no encoder.
    """
    if encoder is None or isinstance(encoder, EncoderAddress | EncoderFunction):
        return encoder
    if isinstance(encoder, str):
        if _IS_ADDRESS.match(encoder):
            return EncoderAddress.parse(encoder, key=EncoderAddress.key_of_environment())
        if is_asked(encoder):
            return EncoderFunction(encoder)
    elif callable(encoder) and not isinstance(encoder, os.PathLike):
        named = encoder if hasattr(encoder, "__qualname__") else type(encoder)
        return EncoderFunction(f"{named.__module__}:{named.__qualname__}", encoder)
    return encoders.find(path_of("encoder", encoder))


def directory_of(encoder: EncoderSpec) -> Path:
    """The directory of an encoder, for what needs its files.

    :raises InvalidArgumentError: When it is a function or an address.
    """
    place = encoder_place(encoder)
    if not isinstance(place, Path):
        raise InvalidArgumentError(
            f"the encoder is {place}, but a directory is expected here: swiftlet export MODEL "
            "--out ENCODER makes one"
        )
    return place


def remembered_place(text: str) -> Place:
    """Where an encoder is that an artefact remembers; an address gets no key."""
    if _IS_ADDRESS.match(text):
        return EncoderAddress.parse(text)
    return EncoderFunction(text) if _IS_FUNCTION.fullmatch(text) else Path(text)


def open_encoder(
    encoder: EncoderSpec, role: Role, *, precision: Precision | None = None
) -> ModelEncoder:
    """Open an encoder for texts of a role: a directory is verified, another one is tried.

    :param precision: The model of a directory; None takes the encoder's default.
    :raises ArtefactError: When the directory is damaged.
    :raises EncoderError: When the function fails, or the address does not answer.
    :raises InvalidArgumentError: When there is no such encoder, or none of this precision.
    """
    place = encoder_place(encoder)
    if not isinstance(place, EncoderAddress | EncoderFunction):
        return OnnxEncoder.load(place or encoders.DEFAULT_ENCODER, precision=precision, role=role)
    if precision not in {None, FunctionEncoder.precision}:
        raise InvalidArgumentError(
            f"precision is {precision}, but the encoder {place} gives embeddings as they are: "
            "leave it out"
        )
    if isinstance(place, EncoderFunction):
        found = FunctionEncoder(f"{place}", InTurn(f"{place}", place.load()))
    else:
        found = FunctionEncoder(
            f"{place}", Endpoint(place), prompts=place.prompts, max_tokens=place.max_tokens
        )
    return found.reading(role)
