"""The tables of a recipe with overrides of the command line, read without torch."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swiftlet.errors import InvalidArgumentError
from training.errors import RecipeError


def read_tables(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Read the tables of a recipe and apply the overrides `key.of.table=value`.

    A value is parsed as TOML; if that fails, it is a string. An empty value restores the default.
    Paths in a recipe are relative to the working directory.

    :raises RecipeError: When the file cannot be read, or is not TOML.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RecipeError(
            f"{path} cannot be read: {error.strerror}; a recipe is a file, such as "
            "training/recipes/own-corpus.toml"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not TOML: {error}") from error
    for override in overrides:
        apply_override(content, override)
    return content


def apply_override(content: dict[str, Any], override: str) -> None:
    """Apply the override `key.of.table=value` to `content`.

    The value is parsed as TOML; if that fails, it is a string. An empty value removes the setting,
    so that its default holds.

    :raises InvalidArgumentError: When the override has another form, or there is no such table.
    """
    key, equals, text = override.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise InvalidArgumentError(f"--set {override!r} is not of the form key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    table: Any = content
    for name in names[:-1]:
        table = _inner(table, name, key)
    if isinstance(table, list):
        table[_number(table, names[-1], key)] = value
    elif text.strip():
        table[names[-1]] = value
    else:
        table.pop(names[-1], None)


def _number(entries: list[Any], name: str, key: str) -> int:
    if not name.isdecimal() or int(name) >= len(entries):
        raise InvalidArgumentError(
            f"--set {key}: {name!r} is not an index of the {len(entries)} entries, from 0"
        )
    return int(name)


def _inner(table: Any, name: str, key: str) -> Any:
    is_list = isinstance(table, list)
    inner = table[_number(table, name, key)] if is_list else table.setdefault(name, {})
    if not isinstance(inner, dict | list):
        raise InvalidArgumentError(f"--set {key}: {name} is a value, not a table")
    return inner
