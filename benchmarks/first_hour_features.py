"""Features of Swiftlet and of other programs: the table of first_hour_features.toml as a section.

python -m benchmarks.first_hour_features
"""

import tomllib
from pathlib import Path

from benchmarks.first_hour_files import TITLE
from measuring.command_line import script_options
from measuring.results import RESULTS, ROOT, write_section

HEADING = "Any feature"
TABLE = Path(__file__).with_suffix(".toml")
_MARKS = {"yes": "●", "partly": "◐", "no": "○"}


def main() -> None:
    options = script_options(__doc__, raw=RESULTS / "first-hour.json")
    table = tomllib.loads(TABLE.read_text("utf-8"))
    rows = [
        {
            "name": each["name"],
            "test": each.get("test"),
            "others": [_MARKS[mark] for mark in each["others"]],
        }
        for each in table["features"]
    ]
    for row in rows:
        if row["test"]:
            check_test(row["test"])
    figures = {
        "template": "benchmarks/first_hour_features.md.j2",
        "others": table["others"],
        "features": rows,
    }
    print(write_section(options.raw, TITLE, HEADING, figures))


def check_test(name: str) -> None:
    """Check that a test is there: tests/FILE.py::FUNCTION."""
    file, _, function = name.partition("::")
    path = ROOT / file
    if not path.is_file() or f"def {function}(" not in path.read_text("utf-8"):
        raise SystemExit(f"there is no test {name}: name another in {TABLE.name}")


if __name__ == "__main__":
    main()
