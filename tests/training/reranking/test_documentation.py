"""docs/reranking.md agrees with the settings of a cross-encoder."""

import re
from pathlib import Path

from pydantic import BaseModel

from training.reranking.settings import RerankerRecipe

PAGE = (Path(__file__).parents[3] / "docs" / "reranking.md").read_text("utf-8")
WHOLE = {"data", "cross_encoder", "optimiser"}
"""Tables with a row for all their settings."""


def test_every_setting_is_documented_with_its_default():
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| (.*?) \|", PAGE, re.MULTILINE))
    expected = {}
    for name, field in RerankerRecipe.model_fields.items():
        default = field.get_default()
        if isinstance(default, BaseModel) and name not in WHOLE:
            expected |= {f"{name}.{each}": value for each, value in default}
        elif name != "recipe":
            expected[name] = default
    assert rows.keys() == expected.keys()
    for name, default in expected.items():
        if isinstance(default, int | float):
            assert rows[name] == f"`{default}`" or float(rows[name].strip("`")) == default
