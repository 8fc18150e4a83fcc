import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from swiftlet import disk

ROOT = Path(__file__).parents[2]

_OF_PATHS = {"write_text", "write_bytes", "unlink", "mkdir", "rmdir", "touch", "tofile"}
_OF_PATHS |= {"symlink_to", "hardlink_to", "save_pretrained"}
_OF_MODULES = {
    "os": {"open", "fsync", "fdatasync", "rename", "replace", "remove", "unlink", "mkdir"}
    | {"makedirs", "rmdir", "link", "symlink", "truncate", "ftruncate", "write", "pwrite"},
    "shutil": {"rmtree", "copytree", "copyfile", "copy", "copy2", "move", "copyfileobj"},
    "sqlite3": {"connect"},
    "tempfile": {"TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile", "mkdtemp", "mkstemp"},
}
_OF_LIBRARIES = {"TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile", "open_memmap"}
_OF_LIBRARIES |= {"save_file", "save_model", "snapshot_download", "SummaryWriter", "copytree"}

_READS = "what only reads"
_SCRATCH = "files outside artefacts, which no later process reads"
_BY_ITSELF = "a library writes a file into a directory that is synced before it is published"
ALLOWED = {
    "export/graphs/fp32.py": ({"TemporaryDirectory", "save_model"}, _SCRATCH),
    "export/graphs/quantisation.py": ({"TemporaryDirectory", "save_model"}, _SCRATCH),
    "export/router.py": (
        {"TemporaryDirectory", "mkdir", "write_text", "symlink_to"},
        _SCRATCH,
    ),
    "swiftlet/processors/low_priority.py": ({"write_text"}, "a setting of the kernel"),
    "service/live/peers.py": ({"unlink"}, "a socket"),
    "service/routes/files.py": ({"open"}, _READS),
    "service/workers.py": ({"TemporaryDirectory"}, _SCRATCH),
    "swiftlet/corpora/archives.py": ({"TemporaryDirectory", "mkdir"}, _SCRATCH),
    "swiftlet/corpora/vector_sources/arrays.py": ({"open_memmap"}, "an array that is only read"),
    "swiftlet/corpora/vector_sources/pairing.py": ({"connect"}, _SCRATCH),
    "swiftlet/corpora/vector_sources/txtai.py": ({"connect"}, _READS),
    "swiftlet/encoders/hub.py": ({"snapshot_download"}, _BY_ITSELF),
    "swiftlet/evaluation/encoders.py": ({"TemporaryDirectory"}, _SCRATCH),
    "swiftlet/index/changes/log.py": ({"connect"}, _READS),
    "swiftlet/database.py": ({"connect"}, _READS),
    "swiftlet/index/building/adopted.py": ({"connect"}, "a database in memory"),
    "swiftlet/index/lexical/index.py": ({"symlink_to"}, _SCRATCH),
    "swiftlet/index/snapshot.py": ({"open"}, "tarfile writes into a file that is opened by disk"),
    "swiftlet/integrations/mteb.py": ({"TemporaryDirectory"}, _SCRATCH),
    "swiftlet/servers/pull.py": ({"TemporaryFile"}, _SCRATCH),
    "training/loop/checkpoints.py": ({"save_file"}, _BY_ITSELF),
    "training/loop/log.py": ({"SummaryWriter"}, "a log for people"),
    "training/model/cross_encoder.py": ({"save_pretrained"}, _BY_ITSELF),
    "training/model/exported.py": ({"TemporaryDirectory", "save_pretrained"}, _SCRATCH),
    "training/model/folders.py": ({"snapshot_download"}, "the cache of the hub's library"),
    "training/plan.py": ({"TemporaryDirectory"}, _SCRATCH),
}


def _writes(tree: ast.AST) -> Iterator[str]:
    """The names of calls that write to the disk, however they are written."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        call = node.func
        name = call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "")
        owner = getattr(call.value, "id", "") if isinstance(call, ast.Attribute) else ""
        modes = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
        modes += [k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)]
        if (
            (owner != "disk" and name in _OF_PATHS | _OF_LIBRARIES)
            or name in _OF_MODULES.get(owner, ())
            or (name == "rename" and owner != "disk")
            or (name == "replace" and owner != "disk" and _is_of_a_path(node))
            or (name == "open" and any(_is_writing(mode) for mode in modes))
        ):
            yield name


def _is_of_a_path(call: ast.Call) -> bool:
    """Path.replace has one argument; those of text and of dataclasses have more."""
    is_method = isinstance(call.func, ast.Attribute)
    return is_method and len(call.args) == 1 and not isinstance(call.args[0], ast.Starred)


def _is_writing(mode: object) -> bool:
    return isinstance(mode, str) and len(mode) <= 3 and bool(set(mode) & set("wax+"))


def _modules() -> Iterator[Path]:
    for package in ("swiftlet", "service", "training", "export"):
        yield from (ROOT / package).rglob("*.py")


def test_nothing_but_the_module_disk_writes_files_of_artefacts():
    found = {}
    for path in _modules():
        name = path.relative_to(ROOT).as_posix()
        if name != "swiftlet/disk.py" and (writes := {*_writes(ast.parse(path.read_text()))}):
            found[name] = writes
    assert found == {name: names for name, (names, _) in ALLOWED.items()}


@pytest.mark.parametrize(
    "line",
    [
        "path.write_text(x)",
        "open(path, 'w')",
        "path.open('r+b')",
        "path.open(mode='ab')",
        "path.replace(other)",
        "path.rename(other)",
        "os.fsync(3)",
        "shutil.rmtree(path)",
        "sqlite3.connect(path)",
        "Path(a, b).unlink(missing_ok=True)",
    ],
)
def test_each_way_to_write_is_seen(line):
    assert [*_writes(ast.parse(line))]


def test_an_exchange_swaps_two_directories(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    disk.exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / "b").is_file()
    assert (tmp_path / "b" / "a").is_file()
