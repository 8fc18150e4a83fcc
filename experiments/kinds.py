"""What readers of files keep of 200 mixed real files: text, seconds, megabytes.

    python -m experiments.kinds --files FILES --libraries LIBRARIES

FILES has a folder for each package of `SOURCES`, unpacked: Debian's sources (`apt-get source`) and
the archives of PyPI (`pip download --no-binary :all:`). LIBRARIES has a folder for each other
reader, as `pip install --target` fills it: those of `READERS`; a missing one is left out. Writes
docs/results/kinds.json and its page. It takes some minutes of one core.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module as package
from importlib.metadata import distributions
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from shutil import copy
from tempfile import TemporaryDirectory

from measuring.command_line import existing, refuse, script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from swiftlet.corpora.files.documents import read_file
from swiftlet.corpora.files.folder import read_folder, unread_suffixes
from swiftlet.corpora.lines import SkippedLines

SOURCES = (
    "abiword_3.0.5~dfsg", "gnumeric_1.12.55", "libapache-poi-java_4.0.1", "notmuch_0.37",
    "libemail-outlook-message-perl_0.921", "pandoc_2.17.1.1", "python-odf_1.4.2", "recoll_1.34.3",
    "tracker-miners_3.4.3", "unrtf_0.21.10-clean", "ebooklib-0.20", "extract_msg-0.57.0",
    "mail_parser-4.8.0", "orgparse-0.5.20260926", "pylatexenc-2.11", "python_docx-1.2.0",
    "python_pptx-1.0.2", "webvtt_py-0.6.0",
)  # fmt: skip
SUFFIXES = {
    ".pptx": 20, ".xlsx": 20, ".ods": 8, ".odt": 18, ".odp": 6, ".rtf": 16, ".epub": 9, ".eml": 12,
    ".msg": 16, ".ipynb": 4, ".tex": 10, ".org": 8, ".json": 6, ".xml": 10, ".srt": 6, ".vtt": 7,
    ".docx": 8, ".py": 4, ".c": 4, ".java": 4, ".pl": 2, ".sh": 2, ".png": 2, ".xls": 2, ".doc": 2,
}  # fmt: skip
"""How many files of each suffix are taken, evenly from all packages in order."""

WORD = re.compile(r"[^\W\d_]{2,}")
MOST_SECONDS = 60
LEAST_READERS = 2
"""A word counts as often as this number of readers have it."""


def swiftlet(path: Path) -> str:
    return "\n".join(
        f"{each.title}\n{each.text}" for each in read_file(path, path.parent, SkippedLines())
    )


def markitdown(path: Path) -> str:
    return str(package("markitdown").MarkItDown().convert(f"{path}").text_content)


def kreuzberg(path: Path) -> str:
    return str(package("kreuzberg").extract_file_sync(f"{path}").content)


def single(path: Path) -> str:
    """The package for this kind alone."""
    return SINGLE[path.suffix.lower()](path)


def pptx(path: Path) -> str:
    lines = list[str]()
    for slide in package("pptx").Presentation(f"{path}").slides:
        for shape in slide.shapes:
            lines += [shape.text_frame.text] * shape.has_text_frame
            if shape.has_table:
                lines += [cell.text for row in shape.table.rows for cell in row.cells]
        lines += [slide.notes_slide.notes_text_frame.text] * slide.has_notes_slide
    return "\n".join(lines)


def xlsx(path: Path) -> str:
    sheets = package("openpyxl").load_workbook(path, data_only=True)
    rows = (row for sheet in sheets for row in sheet.values)
    return "\n".join(" ".join(f"{cell}" for cell in row if cell is not None) for row in rows)


def opendocument(path: Path) -> str:
    body = package("odf.opendocument").load(f"{path}").body
    return str(package("odf.teletype").extractText(body))


def rtf(path: Path) -> str:
    source = path.read_bytes().decode("latin-1")
    return str(package("striprtf.striprtf").rtf_to_text(source, errors="replace"))


def epub(path: Path) -> str:
    pages = package("ebooklib.epub").read_epub(f"{path}").get_items_of_type(9)
    parsed = (package("lxml.html").fromstring(page.get_body_content()) for page in pages)
    return "\n".join(page.text_content() for page in parsed)


def msg(path: Path) -> str:
    message = package("extract_msg").openMsg(f"{path}")
    return f"{message.subject}\n{message.sender}\n{message.to}\n{message.body}"


def latex(path: Path) -> str:
    text = path.read_text("utf-8", "replace")
    return str(package("pylatexenc.latex2text").LatexNodes2Text().latex_to_text(text))


SINGLE: dict[str, Callable[[Path], str]] = {
    ".pptx": pptx, ".xlsx": xlsx, ".odt": opendocument, ".odp": opendocument, ".ods": opendocument,
    ".rtf": rtf, ".epub": epub, ".msg": msg, ".tex": latex,
}  # fmt: skip
READERS = {each.__name__: each for each in (swiftlet, single, markitdown, kreuzberg)}


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] in READERS:
        read_all(READERS[sys.argv[1]], json.loads(sys.argv[2]))
        return
    raw = RESULTS / "kinds.json"
    options = script_options(__doc__, files=existing, libraries=existing, raw=raw)
    chosen = [*chosen_files(options.files)]
    if not chosen:
        refuse(f"{options.files}: it has none of {', '.join(SOURCES)}", program="experiments")
    read = {
        name: answers(name, options.libraries / name, chosen)
        for name in READERS
        if name == "swiftlet" or (options.libraries / name).is_dir()
    }
    figures = {
        "template": "experiments/kinds.md.j2",
        "machine": describe_machine(["lxml"], threads="1"),
        "sources": SOURCES,
        "kinds": [*by_kind(chosen, read)],
        "readers": [summary(name, options.libraries / name, read[name]) for name in read],
        "folder": of_folder(chosen),
    }
    print(write(options.raw, figures))


def chosen_files(files: Path) -> Iterator[Path]:
    """The files of each suffix, evenly from all of the packages, in the order of their names."""
    found = defaultdict[str, list[Path]](list)
    for source in SOURCES:
        for path in sorted((files / source).rglob("*")):
            if path.is_file() and not path.is_symlink():
                found[path.suffix.lower()].append(path)
    for suffix, most in SUFFIXES.items():
        count = len(found[suffix])
        yield from (found[suffix][at * count // most] for at in range(most) if count >= most)
        yield from found[suffix] if count < most else ()


def answers(name: str, library: Path, chosen: list[Path]) -> Figures:
    """What a reader in a process of its own says of each file, and the memory that it took."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*([f"{library}"] if library.is_dir() else []), *sys.path]),
    }
    command = [
        sys.executable,
        "-m",
        "experiments.kinds",
        name,
        json.dumps([f"{each}" for each in chosen]),
    ]
    result = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    lines = [
        json.loads(line) for line in result.stdout.decode().splitlines() if line.startswith("{")
    ]
    return {"files": {each["path"]: each for each in lines if "path" in each}, **lines[-1]}


def read_all(read: Callable[[Path], str], paths: list[str]) -> None:
    """Print, for each file, the seconds of processor time and the words, or the error."""
    signal.signal(signal.SIGALRM, _too_long)
    for path in map(Path, paths):
        began, answer = time.process_time(), dict[str, object](path=f"{path}")
        signal.alarm(MOST_SECONDS)
        try:
            answer["words"] = Counter(WORD.findall(read(path).lower()))
        except BaseException as error:  # noqa: BLE001 - of packages that may do anything
            answer["error"] = f"{type(error).__name__}: {error}"[:200]
        signal.alarm(0)
        print(json.dumps({**answer, "seconds": time.process_time() - began}), flush=True)
    print(json.dumps({"peak_mib": getrusage(RUSAGE_SELF).ru_maxrss // 1024}))


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {MOST_SECONDS} s")


def by_kind(chosen: list[Path], read: dict[str, Figures]) -> Iterator[Figures]:
    """Of each suffix, the share of words that each reader keeps, and its seconds."""
    for suffix in SUFFIXES:
        paths = [f"{each}" for each in chosen if each.suffix.lower() == suffix]
        wanted, kept, seconds = 0, Counter[str](), Counter[str]()
        for path in paths:
            words = {
                name: Counter(each["files"][path].get("words", {})) for name, each in read.items()
            }
            known = {word for each in words.values() for word in each}
            for word in known:
                counts = sorted((each[word] for each in words.values()), reverse=True)
                least = counts[LEAST_READERS - 1] if len(counts) >= LEAST_READERS else 0
                wanted += least
                kept.update({name: min(each[word], least) for name, each in words.items()})
            seconds.update({name: each["files"][path]["seconds"] for name, each in read.items()})
        yield {
            "suffix": suffix, "files": len(paths), "words": wanted,
            "kept": {name: kept[name] for name in read},
            "seconds": {name: seconds[name] for name in read},
        }  # fmt: skip


def summary(name: str, library: Path, read: Figures) -> Figures:
    """A reader as a whole: what its packages take on the disk, its memory and its errors."""
    size = (
        sum(each.stat().st_size for each in library.rglob("*") if each.is_file())
        if library.is_dir()
        else 0
    )
    errors = sum("error" in each for each in read["files"].values())
    seconds = sum(each["seconds"] for each in read["files"].values())
    packages = len([*distributions(path=[f"{library}"])])
    return {
        "name": name, "mib": size / 2**20, "packages": packages, "peak_mib": read["peak_mib"],
        "errors": errors, "seconds": seconds,
    }  # fmt: skip


def of_folder(chosen: list[Path]) -> Figures:
    """Of all files in one folder: how many are read, named in a message or by suffix, and lost."""
    with TemporaryDirectory() as folder:
        for number, path in enumerate(chosen):
            copy(path, Path(folder, f"{number:03}-{path.name}"))
        skipped = SkippedLines()
        documents = [*read_folder(Path(folder), skipped, Path(folder))]
        read = {f"{each.metadata['path']}" for each in documents}
        unread = unread_suffixes(Path(folder), ())
        names = {path.name for path in Path(folder).iterdir()}
        named = {name for name in names - read if any(name in each for each in skipped.messages)}
        by_suffix = {name for name in names - read if Path(name).suffix.lower() in unread}
    reasons = Counter(
        re.sub(r":? \(.*|, line.*|[\d,]{4,}", "", each.split(": ", 1)[1])
        for each in skipped.messages
        if any(name in each for name in named)
    )
    return {
        "files": len(names), "documents": len(documents), "read": len(read), "named": len(named),
        "suffixes": {suffix: unread[suffix] for suffix in sorted(unread)},
        "lost": sorted(names - read - named - by_suffix), "reasons": reasons.most_common(),
    }  # fmt: skip


if __name__ == "__main__":
    main()
