"""Options of commands that are the fields of frozen values, declared where the values are."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from swiftlet.arguments import Option, options_of
from swiftlet.cli.options import Precision, boost_of, filter_of
from swiftlet.cli.terminal import print_skipped
from swiftlet.corpora.fields import Fields
from swiftlet.index.building.settings import OPTIONS as BUILD_OPTIONS
from swiftlet.index.building.settings import BuildSettings
from swiftlet.search.request import OPTIONS, SearchRequest

if TYPE_CHECKING:
    from swiftlet.corpora.lines import SkippedLines
    from swiftlet.corpora.rows import Corpus

Parameters = list[inspect.Parameter]
_TYPES = {"Filter": str, "Boosts": str, "BoostObjects": str, "Precision": Precision, "Role": str}

_READ = {"filter": filter_of, "boost": boost_of}


def parameters(settings: type, names: Iterable[str] | None = None) -> Parameters:
    """An option of the command line for each field of a dataclass, or for those with a name."""
    hints = get_type_hints(settings, localns=_TYPES)
    options = options_of(settings)
    defaults = {each.name: each.default for each in fields(settings)}
    return [
        _parameter(name, hints[name], options[name], defaults[name]) for name in names or options
    ]


def _parameter(name: str, hint: Any, option: Option, default: Any) -> inspect.Parameter:
    several = [each for each in (hint, *get_args(hint)) if get_origin(each) in {tuple, Sequence}]
    if several:
        (kind, *_) = get_args(several[0])
        hint, default = list[Path if kind is Path else str] | None, None  # type: ignore[misc]
    further: dict[str, Any] = {"show_default": option.unset} if option.unset else {}
    if int in {hint, *get_args(hint)}:
        further["min"] = option.least
    flag = option.flag or f"--{name.replace('_', '-')}"
    kind = inspect.Parameter.KEYWORD_ONLY
    annotation = Annotated[hint, typer.Option(flag, help=option.about, **further)]
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def takes(**groups: Parameters) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options; it is called with a dict for each group, of the options given."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)

        @wraps(command)
        def run(context: typer.Context, **values: Any) -> None:
            for group, members in groups.items():
                found = {each.name: values.pop(each.name) for each in members}
                values[group] = {
                    name: _READ[name](value) if name in _READ else value
                    for name, value in found.items()
                    if (source := context.get_parameter_source(name)) and source.name != "DEFAULT"
                }
            command(**values)

        kind = inspect.Parameter.KEYWORD_ONLY
        own = [
            inspect.Parameter("context", kind, annotation=typer.Context),
            *(
                each.replace(kind=kind)
                for each in signature.parameters.values()
                if each.name not in groups
            ),
        ]
        all_of_them = own + [each for members in groups.values() for each in members]
        run.__signature__ = signature.replace(parameters=all_of_them)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in all_of_them}
        return run

    return decorate


PRINTED = parameters(
    SearchRequest,
    [each for each, about in OPTIONS.items() if about.printed and each not in {"query", "top_k"}],
)
"""The options of `swiftlet search`."""

MEASURED = [each for each in PRINTED if OPTIONS[each.name].ranks]
"""The options of `swiftlet evaluate`."""

BUILT = parameters(BuildSettings)
"""The options of `swiftlet index`."""

ENCODED = [each for each in BUILT if not BUILD_OPTIONS[each.name].of_index]
"""The options of `swiftlet encode`."""

COLUMNS = [
    *parameters(Fields),
    inspect.Parameter(
        "skip_bad_lines",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[
            bool,
            typer.Option("--skip-bad-lines", help="List bad lines and rows instead of stopping."),
        ],
    ),
    inspect.Parameter(
        "strict",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[
            bool,
            typer.Option("--strict", help="Stop at a file that cannot be read."),
        ],
    ),
]
"""The options of reading a corpus: the names of its fields, and what becomes of its bad lines."""

OF_CORPUS = [each for each in BUILT if BUILD_OPTIONS[each.name].of_shards] + COLUMNS
"""The options that shards have been made with."""


def flag_of(parameter: inspect.Parameter) -> str:
    """How the command line calls an option."""
    return f"{parameter.annotation.__metadata__[0].default}"  # typer keeps it there at first


@contextmanager
def documents_with(
    corpus: Sequence[Path], given: Mapping[str, Any]
) -> "Iterator[tuple[Corpus, SkippedLines]]":
    """A corpus, or its documents if fields are named; at the end, what was left out is printed.

    :param given: Of the options `COLUMNS`.
    """
    from swiftlet.corpora.lines import SkippedLines
    from swiftlet.corpora.rows import documents_of

    names = dict(given)
    lines, strict = names.pop("skip_bad_lines", False), names.pop("strict", False)
    if lines and strict:
        raise typer.BadParameter("--strict stops at what --skip-bad-lines leaves out: choose one")
    skipped = SkippedLines(lines=lines, files=not strict)
    columns = Fields(**names) if names else None
    try:
        named = documents_of(corpus, skipped=skipped, fields=columns) if columns else corpus
        yield named, skipped
    finally:
        print_skipped(skipped)
