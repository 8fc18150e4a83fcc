"""docs/distillation.md agrees with the settings of distillation."""

import re
from pathlib import Path

import typer.main

from swiftlet.cli.main import app
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from training.distillation.settings import Distillation

PAGE = (Path(__file__).parents[3] / "docs" / "distillation.md").read_text("utf-8")


def documented() -> dict[str, str]:
    """The settings of the page's table, and their defaults."""
    return dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]+?) \|", PAGE, re.MULTILINE))


def test_every_setting_is_an_option_on_the_page_or_in_its_table_with_its_default():
    rows = documented()
    options = {"corpora": "--corpus", "project": "--no-projection"}
    options["judged"] = "`judged`"  # of `swiftlet adapt`
    for name, field in Distillation.model_fields.items():
        option = options.get(name, f"--{name.replace('_', '-')}")
        if name in rows:
            default = rows.pop(name)
            if field.default is not None:
                assert default == str(field.default).removesuffix(".0")
        else:
            assert option in PAGE, name
    assert not rows, "the page has settings that do not exist"


def test_every_option_of_the_page_exists():
    command = typer.main.get_command(app).commands["distill"]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts}
    known |= {option for parameter in command.params for option in parameter.secondary_opts}
    others = {"--encoder", "--constraint", "--adapt-queries"}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) - others <= known


def test_the_help_has_the_defaults_of_learning_from_an_index_alone():
    command = typer.main.get_command(app).commands["distill"]  # type: ignore[attr-defined]
    shown = {each.name: str(each.show_default) for each in command.params}
    layers = Distillation(index="any")
    table = Distillation(index="any", student=LOOKUP_QUERY_ENCODER.name)
    assert f"by an index alone {layers.epochs:g}, look-up: {table.epochs:g}" in shown["epochs"]
    assert f"by an index alone: {table.distance}" in shown["distance"]
    assert f"{layers.learning_rate:g}; look-up: {table.learning_rate:g}" == shown["learning_rate"]
