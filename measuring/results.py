"""Result pages: a template makes Markdown from raw figures in JSON.

    python -m measuring.results docs/results/*.json

writes the pages again from their raw figures, and the overview of all, docs/results/README.md. A
raw file, or each section in it, names its template in "template"; everything else in it is for the
template. One that is "finished" has no template any more, and its page stays as it is.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isinf
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from tabulate import tabulate

from measuring.command_line import existing, script_parser

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
OVERVIEW = RESULTS / "README.md"
TEMPLATE, SECTIONS, FINISHED = "template", "sections", "finished"

Figures = dict[str, Any]
Side = TypeVar("Side")


def write(raw: Path, figures: Figures) -> Path:
    """Write raw figures, and the page beside them; the path of the page."""
    raw.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    page = raw.with_suffix(".md")
    page.write_text(page_of(raw, figures), "utf-8")
    return page


def write_section(raw: Path, title: str, heading: str, figures: Figures) -> Path:
    """Write one section of a page; it replaces an earlier one with that heading."""
    page: Figures = {"title": title, SECTIONS: {}}
    if raw.exists():
        page = json.loads(raw.read_text("utf-8"))
    page[SECTIONS][heading] = figures
    return write(raw, page)


def page_of(raw: Path, figures: Figures) -> str:
    """The page of raw figures, which names the file `raw` as its source."""
    if SECTIONS in figures:
        text = f"# {figures['title']}"
        for heading, section in figures[SECTIONS].items():
            text += f"\n\n## {heading}\n\n{rendered(section[TEMPLATE], section)}"
            text += f"\n\n{section['machine']}" if "machine" in section else ""
    else:
        text = rendered(figures[TEMPLATE], figures)
    origin = f", {figures['source']}" if "source" in figures else ""
    machine = f" {figures['machine']}" if "machine" in figures else ""
    return f"{text}\n\nRaw figures: [{raw.name}]({raw.name}){origin}.{machine}\n"


def overview() -> str:
    """The page of all results."""
    raw = {file.stem: json.loads(file.read_text("utf-8")) for file in RESULTS.glob("*.json")}
    template = str(OVERVIEW.relative_to(ROOT)) + ".j2"
    return rendered(template, {"raw": raw}) + "\n"


def alternating(sides: Iterable[Side], rounds: int) -> Iterator[Side]:
    """Each of the sides once a round, in one order and then in the reverse order."""
    order = list(sides)
    for number in range(rounds):
        yield from order if number % 2 == 0 else reversed(order)


def spread(values: Sequence[float]) -> Figures:
    """The rounds of a measurement, and their median, least and most."""
    least, most = min(values), max(values)
    return {"median": median(values), "least": least, "most": most, "rounds": list(values)}


def over_seeds(values: Sequence[float]) -> dict[str, float]:
    """The mean of a figure over the seeds, half its range, and its ends."""
    least, most = min(values), max(values)
    return {"mean": fmean(values), "half": (most - least) / 2, "least": least, "most": most}


def means(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean over the queries of each system, mode or collection."""
    return {name: fmean(each.values()) for name, each in values.items()}


def by_query(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean over the seeds for each query."""
    return {query: fmean(each[query] for each in runs) for query in runs[0]}


def bound(name: str, measured: object, expected: object, *, kept: bool) -> Figures:
    """A bound on a figure: its name, the measured value, the bound, and whether it was kept."""
    return {"name": name, "measured": str(measured), "bound": str(expected), "kept": kept}


def at_most(name: str, measured: float, most: float, form: Callable[[float], str] = str) -> Figures:
    """The upper bound of a figure, shown by `form`."""
    return bound(name, form(measured), f"at most {form(most)}", kept=measured <= most)


def none_of(name: str, count: int) -> Figures:
    """The bound that there is none of something."""
    return bound(name, count, 0, kept=not count)


def growth(name: str, first: float, last: float, most: float = 0.05) -> Figures:
    """The bound on the growth of memory, from and to a number of bytes."""
    measured = f"{megabytes(first)}, {megabytes(last)} ({last / first - 1:+.1%})"
    return bound(name, measured, f"less than {most:+.0%}", kept=last / first - 1 < most)


def only(name: str, found: Iterable[int], allowed: Iterable[int]) -> Figures:
    """The bound that there are no other statuses than the allowed ones."""
    others = sorted(set(found) - set(allowed))
    return bound(name, ", ".join(map(str, others)) or "none", "none", kept=not others)


def milliseconds(seconds: float) -> str:
    """Seconds as milliseconds, with three digits at least."""
    if isinf(seconds):
        return "never"
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{1000 * seconds:,.0f} ms"


def megabytes(count: float) -> str:
    """Bytes as millions of them."""
    return f"{count / 1e6:.1f} MB"


def table(rows: Iterable[Mapping[str, Any] | Sequence[Any]], head: Sequence[str] = ()) -> str:
    """A Markdown table of rows: mappings, or sequences below `head`. Missing cells are dashes."""
    listed = list(rows)
    if not head:
        head = list(dict.fromkeys(name for row in listed for name in row))
        listed = [[row.get(name) for name in head] for row in listed]  # type: ignore[union-attr]
    cells = [[shown(cell) for cell in row] for row in listed]
    return str(tabulate(cells, head, tablefmt="github", disable_numparse=True))


def shown(cell: object) -> str:
    """A cell of a table: numbers with three digits, or without decimals if they are larger."""
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, float):
        return f"{cell:.3g}" if abs(cell) < 100 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _bounds(bounds: Sequence[Figures]) -> str:
    keys, verdicts = ("name", "measured", "bound"), ("**missed**", "kept")
    rows = [[*(each[key] for key in keys), verdicts[each["kept"]]] for each in bounds]
    return table(rows, ["", "measured", "bound", ""])


def _statuses(counts: Mapping[Any, int]) -> str:
    rows = [["no answer" if f"{each}" == "0" else each, counts[each]] for each in sorted(counts)]
    return table(rows, ["status", "requests"])


def rendered(template: str, figures: Figures) -> str:
    """A template, by its path from the project's root, filled with figures."""
    return environment().get_template(template).render(figures).strip()


def environment() -> Environment:
    """The filters of the templates, which go by their path from the project's root."""
    found = Environment(
        loader=FileSystemLoader(ROOT), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, autoescape=False,
    )  # fmt: skip
    found.tests["of_length"] = lambda values, length: len(values) == length
    found.filters |= {
        "ms": milliseconds,
        "mb": megabytes,
        "count": lambda number: f"{number:,.0f}",
        "fixed": lambda number, digits: f"{number:,.{digits}f}",
        "table": table,
        "bounds": _bounds,
        "statuses": _statuses,
    }
    return found


def main() -> None:
    """Write the pages of the raw figures that are named, and the overview."""
    parser = script_parser(__doc__)
    parser.add_argument("raw", type=existing, nargs="*", help="files of raw figures")
    for raw in parser.parse_args().raw:
        if FINISHED not in (found := json.loads(raw.read_text("utf-8"))):
            print(write(raw, found))
    OVERVIEW.write_text(overview(), "utf-8")
    print(f"{OVERVIEW}: the overview; a page is written again if its raw figures are named")


if __name__ == "__main__":
    main()
