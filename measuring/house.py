"""The size of checkouts, and the walks through them, as a Markdown table with a column for each.

    python -m measuring.house BEFORE AFTER

`lint-imports` checks the floors of the rooms.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from measuring.walks import PACKAGES, walks

MEASURING = ("measuring", "benchmarks", "experiments", "loadtests")
SERVERS = {"milvus", "postgres", "servers"}
MOST_MODULES = 15
ONE = "--one"

Facts = dict[str, object]


def lines(root: Path) -> Facts:
    """Lines of Python by room, and the sizes of folders; a room of `swiftlet` is a folder."""
    git = ["git", "-C", str(root), "ls-files", "*.py"]
    rooms: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for name in subprocess.check_output(git, text=True).splitlines():
        folder, _, file = name.rpartition("/")
        first, *others = name.split("/")
        count = (root / name).read_bytes().count(b"\n")
        rooms["measuring and load tests" if first in MEASURING else first] += count
        if first == "swiftlet":
            rooms[f"swiftlet/{others[0] if len(others) > 1 else '*.py'}"] += count
        if first in {"deploy", *PACKAGES, *MEASURING}:
            folders[folder] += file != "__init__.py"
            rooms["outside tests"] += count
            if first != "swiftlet" or SERVERS.isdisjoint(others):
                rooms["outside tests, without servers"] += count
    large = sum(number > MOST_MODULES for number in folders.values())
    return {
        **{f"lines: {room}": f"{rooms[room]:,}" for room in sorted(rooms)},
        f"folders with over {MOST_MODULES} modules": large,
        "modules in the largest folder": max(folders.values()),
    }


def imports(root: Path) -> Facts:
    """Circles of imports, with those under TYPE_CHECKING; stderr names them."""
    import grimp

    roots = [each for each in PACKAGES + MEASURING if (root / each / "__init__.py").is_file()]
    graph = grimp.build_graph(*roots, cache_dir=None)
    imported = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    above = {one: graph.find_upstream_modules(one) for one in graph.modules}
    around = {
        frozenset({one, *(each for each in above[one] if one in above[each])}) for one in above
    }
    folder = {one: one if graph.find_children(one) else one.rpartition(".")[0] for one in imported}
    pairs = {(folder[one], folder[each]) for one, others in imported.items() for each in others}
    mutual = [pair for pair in pairs if pair[0] < pair[1] and pair[::-1] in pairs]
    found: dict[str, Sequence[Sequence[str]]] = {
        "import circles of modules": [sorted(circle) for circle in around if len(circle) > 1],
        # A folder and a folder in it are no such pair.
        "pairs of folders that import each other": [
            (one, other) for one, other in mutual if not other.startswith(f"{one}.")
        ],
    }
    for name, cases in found.items():
        print(f"{root}: {name}", *cases, sep="\n  ", file=sys.stderr)
    return {name: len(cases) for name, cases in found.items()}


def measured(root: Path) -> Facts:
    """Everything about a checkout, in a process that imports from the checkout first."""
    own = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "facts.json"
        subprocess.run(
            [sys.executable, "-P", "-m", __spec__.name, ONE, root, out],
            env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{own}"},
            stdout=sys.stderr,
            check=True,
        )
        found: Facts = json.loads(out.read_text("utf-8"))
    return found


def main(arguments: list[str]) -> None:
    """Print the table, or write what there is to say about one checkout into a file."""
    if not arguments or arguments[0] in {"-h", "--help"}:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    if arguments[0] == ONE:
        root = Path(arguments[1])
        found = lines(root) | imports(root) | walks(root)
        Path(arguments[2]).write_text(json.dumps(found), "utf-8")
        return
    for each in arguments:
        if not Path(each, ".git").exists():
            sys.exit(f"{each} is no checkout of git: name the folder of one")
    columns = [measured(Path(each).resolve()) for each in arguments]
    print("|", *(f"| {each}" for each in arguments), "|")
    print("|---|" + "---:|" * len(columns))
    names = dict.fromkeys(name for column in columns for name in column)
    for name in sorted(names, key=lambda name: name if name.startswith("lines") else "others"):
        print(f"| {name} |", *(f"{column.get(name, 'none')} |" for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
