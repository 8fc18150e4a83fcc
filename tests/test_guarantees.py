"""Each promise of docs/guarantees.md has a test, and each limit of docs/limits.md is in force."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from service.settings import Settings

PAGE = Path(__file__).parents[1] / "docs" / "guarantees.md"
TEXT = PAGE.read_text("utf-8")
PROMISES = re.findall(r"(?ms)^- (.+?)(?=^- |^## |\Z)", TEXT.partition("## What is not promised")[0])
LINK = re.compile(r'\[test\]\((\S+) "(\w+)"\)')


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_is_one_sentence_and_names_its_tests(promise):
    links = LINK.findall(promise)
    assert links
    sentence = LINK.sub("", promise)
    assert sentence.count(". ") == 0
    for file, name in links:
        assert f"def {name}(" in (PAGE.parent / file).read_text("utf-8")


LIMITS = (PAGE.parent / "limits.md").read_text("utf-8")
ROWS = re.findall(r"(?m)^\| (.+?) \| ([\d,]+) \| `(\S+)` \|", LIMITS)


@pytest.mark.parametrize(("what", "most", "where"), ROWS, ids=[row[2] for row in ROWS])
def test_each_limit_is_the_one_in_the_code(what, most, where):
    if where.startswith("SWIFTLET_"):
        field = where.removeprefix("SWIFTLET_").lower()
        value = Settings.model_fields[field].default
    else:
        module, _, name = where.rpartition(".")
        value = getattr(import_module(module), name)
    assert f"{value:,}" == most, what


def test_every_setting_that_bounds_something_is_a_limit():
    bounds = {f"SWIFTLET_{name.upper()}" for name in Settings.model_fields if name[:4] == "max_"}
    assert bounds <= {where for *_, where in ROWS}
