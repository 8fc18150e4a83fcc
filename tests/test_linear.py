"""The time of every regular expression grows evenly with the text that it reads."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from swiftlet.address import parse_address
from swiftlet.errors import InvalidArgumentError
from swiftlet.sync.rules import rules_of, verdict
from tests.attacks import slow_text
from tests.growth import grows_evenly

PACKAGES = ("swiftlet", "service", "training", "export")
_AT_ONE_PLACE = {"match", "fullmatch"}
_SEARCHING = {"search", "sub", "subn", "split", "findall", "finditer"}
OTHERS = {
    "re.fullmatch(f'(?P<scheme>{schemes}){_PLACE}{plugin.path}', text)",
    "re.compile(compared, re.DOTALL)",
}
"""Tested below."""
MODULES = [
    path
    for package in PACKAGES
    for path in sorted(Path(package).rglob("*.py"))
    if re.search(r"^(import re|from re import .*)$", path.read_text("utf-8"), re.MULTILINE)
]
SLOW = {
    "code that is not closed": (r"(?ms)^ {0,3}(```+|~~~+)[^`\n]*\n.*?^ {0,3}\1[`~]*[ \t]*$", False),
    "a heading": (r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*", True),
    "a title of front matter": (r"(?m)^title:\s*(.*?)\s*$", False),
    "a score": (r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", True),
    "backslashes": (r"(\\+)([*_`~\[\]<])", False),
    "too few neighbours": (r"(?:[A-Za-z_]+0+|HNSW1|NSG[1-9])(?![0-9])", False),
    "a secret": ("//.*@", False),
    "the end of a word": (r"[^\W\d_]*$", False),
}


@pytest.mark.parametrize("name", SLOW)
def test_expressions_that_are_known_to_be_slow_are_found(name):
    expression, at_one_place = SLOW[name]
    assert slow_text(re.compile(expression), at_one_place=at_one_place)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_the_time_of_every_expression_grows_evenly(path):
    slow = {
        name: text
        for name, pattern, at_one_place in _expressions(path)
        if (text := slow_text(pattern, at_one_place=at_one_place))
    }
    assert slow == {}


def _expressions(path: Path) -> Iterator[tuple[str, re.Pattern[Any], bool]]:
    """The expressions of a module, and whether they are matched at the beginning of texts only.

    One that depends on arguments of a function has to be tested on its own, as a line below.
    """
    tree = ast.parse(path.read_text("utf-8"))
    module = vars(import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__")))
    uses: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            uses.setdefault(ast.unparse(node.value), set()).add(node.attr)
    for name, value in module.items():
        if isinstance(value, re.Pattern):
            yield name, value, not uses.get(name, _SEARCHING) & _SEARCHING
    for function in ast.walk(tree):
        for call in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
            if not (isinstance(call, ast.Call) and ast.unparse(call.func).startswith("re.")):
                continue
            asked = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if ast.unparse(call) in OTHERS:
                continue
            if asked == "compile":  # the patterns of a function without arguments
                made = module[function.name]()
                for pattern in made if isinstance(made, tuple) else (made,):
                    yield function.name, pattern, False
            elif asked in _SEARCHING | _AT_ONE_PLACE:
                flags = [each for each in call.args[1:] if ast.unparse(each).startswith("re.")]
                pattern = re.compile(*(_value(each, module) for each in (call.args[0], *flags)))
                yield ast.unparse(call), pattern, asked in _AT_ONE_PLACE


def _value(expression: ast.expr, module: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(expression), "", "eval"), module)


@pytest.mark.parametrize("scheme", ["milvus", "postgresql"])
@pytest.mark.parametrize("piece", ["a", ".", "[", ":", ":1", "/", "/a", "@", "//", "//@"])
def test_the_time_of_an_address_grows_evenly(scheme, piece):
    def parse(count: int) -> None:
        with pytest.raises(InvalidArgumentError):
            parse_address(f"{scheme}://{piece * count}!")

    assert grows_evenly(parse, 4_000)


@pytest.mark.parametrize(
    "rule", ["*a" * 9 + "b", "**/a*/" * 9 + "b", "*a/**/*a*b", "[[:alpha:]]*[!a]"]
)
@pytest.mark.parametrize("piece", [b"a", b"a/", b"ab/"])
def test_the_time_of_a_rule_of_git_grows_evenly(tmp_path, rule, piece):
    (tmp_path / ".gitignore").write_text(rule)
    rules = rules_of(tmp_path / ".gitignore")
    assert grows_evenly(lambda count: verdict(rules, piece * count + b"c", is_folder=False), 1_000)
