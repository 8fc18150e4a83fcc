"""Arguments and options that several commands share."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from swiftlet import encoders
from swiftlet.address import ADDRESSES
from swiftlet.errors import FilterError, InvalidArgumentError, shown

Precision = Literal["fp32", "int8", "int8_static"]
"""The precisions an encoder directory may hold."""


def complete_encoder(incomplete: str) -> list[str]:
    """The encoders' names that begin so; without any, the shell completes a path."""
    return [name for name in encoders.named() if name.startswith(incomplete)]


def encoder_option(
    default: str,
    about: str = "Directory that `swiftlet export` wrote, the name of one that ships, "
    "MODULE:FUNCTION, or the address of an OpenAI-compatible API.",
) -> Any:
    """The option --encoder, and what its help says of the default."""
    return typer.Option(
        "--encoder", help=about, autocompletion=complete_encoder, show_default=default
    )


RememberedEncoderOption = Annotated[
    str | None,
    encoder_option(
        "where it was then, or the one that ships",
        "The document encoder that the index was built by.",
    ),
]
QueryEncoderOption = Annotated[str | None, encoder_option("the index's own, or the one that ships")]
ServedEncoderOption = Annotated[
    str | None, encoder_option("SWIFTLET_ENCODER, the index's own, or shipped")
]
PrecisionOption = Annotated[
    Precision | None,
    typer.Option(help="The precision of the encoder.", show_default="the encoder's default"),
]
RerankerOption = Annotated[
    Path | None, typer.Option(help="Directory of a re-ranker.", show_default="none")
]
IndexPlace = Annotated[str, typer.Argument(help=f"Index directory, {ADDRESSES}.", metavar="INDEX")]
IndexDirectory = Annotated[Path, typer.Argument(help="Index directory.", metavar="INDEX")]
Corpus = Annotated[
    list[Path],
    typer.Argument(help="A corpus, as `swiftlet index` reads it.", metavar="CORPUS..."),
]
FromShards = Annotated[
    list[Path] | None,
    typer.Option(
        help="Shards that `swiftlet encode` wrote, or folders of them; may be repeated.",
        show_default="none",
    ),
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Encoding threads.", show_default="all cores")
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        help="nDCG@k, MRR@k, recall@k, P@k, MAP@k, hit_rate@k or Holes@k; may be repeated.",
        show_default="nDCG@10, MRR@10, recall@100",
    ),
]
RelevantFrom = Annotated[
    int,
    typer.Option(
        min=1, help="The lowest grade of a relevant document; nDCG takes the grades as they are."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Another setting of a training: docs/distillation.md."
    ),
]
AllowUnknown = Annotated[
    bool, typer.Option("--allow-unknown", help="Accept qrels with unknown ids.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the run's last checkpoint.")]
Finish = Annotated[
    bool, typer.Option("--finish", help="End a stopped run with its best checkpoint.")
]
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Remove an earlier run first.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing artefact.")]


_COMPARISON = re.compile(r"([\w.-]+)\s*(>=|<=|!=|=|<|>)\s*(\S.*)")
_OTHER_SYNTAX = re.compile(r"^[=<>]|^[^\"']* or ")
_AND = re.compile(r"(?<!\s)\s+and\s+(?=[\w.-]+\s*[<>=!])")
_SIGNS = {">=": "gte", "<=": "lte", ">": "gt", "<": "lt"}


def filter_of(option: str | None) -> Any:
    """The value of the option --filter, or None: JSON, or comparisons that "and" joins.

    :raises FilterError: When it is neither, or has a number that is not finite.
    """
    from swiftlet.corpora.records import FINITE_JSON

    if option is None:
        return None
    try:
        return FINITE_JSON.decode(option)
    except (ValueError, RecursionError):
        parts = [_COMPARISON.fullmatch(part.strip()) for part in _AND.split(option)]
        conditions = [
            _condition(*part.groups())
            for part in parts
            if part is not None and not _OTHER_SYNTAX.search(part[3])
        ]
    if len(conditions) < len(parts):
        raise FilterError(
            f"--filter is {shown(option)}, but 'modified>=2026-01-01 and kind=pdf' is expected, or "
            'JSON such as {"or": [{"year": {"gte": 2020}}, {"kind": "pdf"}]}'
        )
    return conditions[0] if len(conditions) == 1 else {"and": conditions}


def boost_of(option: str | None) -> Any:
    """The value of the option --boost, which is JSON, or None.

    :raises InvalidArgumentError: When it is not JSON, or has a number that is not finite.
    """
    from swiftlet.corpora.records import FINITE_JSON

    if option is None:
        return None
    try:
        return FINITE_JSON.decode(option)
    except (ValueError, RecursionError):
        raise InvalidArgumentError(
            f"--boost is {shown(option)}, but JSON such as "
            '{"field": "modified", "half_life_days": 30, "weight": 0.1} is expected'
        ) from None


def _condition(field: str, sign: str, value: str) -> dict[str, Any]:
    """A comparison as JSON; a value is a number, true or false if JSON says so, or else a text."""
    from swiftlet.corpora.records import FINITE_JSON

    if len(value) > 1 and value[0] == value[-1] == "'":
        return _condition(field, sign, json.dumps(value[1:-1]))
    operand: Any = value
    with suppress(ValueError):
        parsed = FINITE_JSON.decode(value)
        operand = parsed if isinstance(parsed, str | int | float) else value
    if sign == "!=":
        return {"not": {field: operand}}
    return {field: operand if sign == "=" else {_SIGNS[sign]: operand}}
