"""Lists what can be run to measure, a sentence each."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOMS = ("experiments", "benchmarks", "loadtests", "measuring")
"""The rooms with scripts, of which this kit is the last."""


def scripts(*rooms: str) -> Iterator[str]:
    """The command of each script of some rooms, and the first sentence about it."""
    root = Path(__file__).parents[1]
    for path in sorted(path for room in rooms for path in (root / room).rglob("*.py")):
        text = path.read_text("utf-8")
        if '\nif __name__ == "__main__":' in text:
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            about = ast.get_docstring(ast.parse(text)) or ""
            sentence = " ".join(about.partition("\n\n")[0].split())
            yield f"python -m {name.removesuffix('.__main__'):32} {sentence}"


def show(*rooms: str) -> None:
    """Print the scripts of some rooms; `--help` of each shows its options."""
    print(*scripts(*rooms), sep="\n")


if __name__ == "__main__":
    show(*ROOMS)
