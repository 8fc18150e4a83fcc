"""docs/recipes.md and docs/training.md agree with the settings of recipes."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from training.model.poolings import POOLINGS
from training.recipes.registry import SAMPLERS
from training.recipes.settings import Recipe, parse_recipe, read_recipe

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "recipes.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "training.md").read_text("utf-8")

Settings = dict[str, dict[str, Any]]
"""Each table's settings and their defaults, by the table's name; "" for the top of the file."""


def tables(model: type[BaseModel], name: str = "") -> Settings:
    """The settings of `model` and of all tables in it."""
    found: Settings = {name: {}}
    for setting, field in model.model_fields.items():
        place = f"{name}.{setting}".lstrip(".")
        kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if is_table(kind)]
        for kind in kinds:
            found |= tables(kind, place)
        # Of what has tables of its own, only a list that may be empty is a setting as well.
        if not kinds:
            found[name][setting] = ... if field.is_required() else field.default
        elif field.default == ():
            found[name][setting] = ()
    return found


def is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def documented() -> dict[str, dict[str, str]]:
    """The settings of docs/recipes.md and their default cells, by the tables of its headings."""
    found: dict[str, dict[str, str]] = {}
    every_setting = REFERENCE.split("## Every setting")[1].split("\n## ")[0]
    for section in every_setting.split("\n### ")[1:]:
        heading, *lines = section.splitlines()
        rows = {}
        for line in lines:
            cells = [cell.strip(" `") for cell in re.split(r"(?<!\\)\|", line)]
            if len(cells) > 3 and not set(cells[1]) <= {"-"} and cells[1] != "setting":
                assert cells[3], f"{cells[1]} has no explanation"
                rows[cells[1]] = cells[2]
        for name in re.findall(r"\[([a-z_.]+)\]", heading) or [""]:
            found[name] = rows
    return found


def test_every_setting_is_documented_with_its_default():
    cells = documented()
    for name, settings in tables(Recipe).items():
        assert cells[name].keys() == settings.keys(), name
        for setting, default in settings.items():
            cell = cells[name][setting]
            if default is ...:
                assert cell == "required", (name, setting)
            elif default is None:
                assert cell == "", (name, setting)
            else:
                expected = list(default) if isinstance(default, tuple) else default
                assert tomllib.loads(f"default = {cell}")["default"] == expected, (name, setting)
    assert cells.keys() == tables(Recipe).keys()


def test_every_pooling_is_on_the_page():
    row = next(line for line in REFERENCE.splitlines() if line.startswith("| `pooling` |"))
    assert set(re.findall(r'`"(\w+)"`', row)) == set(POOLINGS)


def test_every_sampler_is_explained():
    theory = (ROOT / "docs" / "training-theory.md").read_text("utf-8")
    table = theory.split("| sampler |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(SAMPLERS)


def test_the_recipes_on_the_page_are_valid():
    whole, part = (
        tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    )
    parse_recipe(whole, "the first recipe")
    parse_recipe(whole | part, "the first recipe on MS MARCO")


def commands() -> list[str]:
    blocks = "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    return [line for line in blocks.splitlines() if "swiftlet train" in line]


@pytest.mark.parametrize("command", commands())
def test_the_commands_on_the_page_name_recipes_and_settings_that_there_are(command):
    words = shlex.split(command)
    path = words[words.index("train") + 1]
    overrides = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    recipe = read_recipe(ROOT / path, overrides)
    assert recipe.data[0].corpus in {"CORPUS", "irds:msmarco-passage"}
