"""The route to the original files of documents."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import swiftlet
from service.wire.keys import ApiKey
from swiftlet.errors import InvalidArgumentError
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document

HTML = "<script>window.owned = 1</script>"
NAMES = {
    "a": {"path": "notes/a b.md"},
    "notes/page.html": {},
    "report.pdf#page=2": {"file": "report.pdf", "page": 2},
    "sheet": {"path": "sheet.xlsx"},
    "up": {"path": "../outside.txt"},
    "root": {"path": "/etc/hostname"},
    "link": {"path": "link.txt"},
    "hidden": {"path": ".env"},
    "hidden link": {"path": "shown.txt"},
    "folder": {"path": "notes"},
    "gone": {"path": "gone.txt"},
    "nul": {"path": "a\0b"},
    "long": {"path": "x" * 5_000},
    "number": {"path": 3},
    "nothing": {"path": ""},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("originals") / "folder"
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "a b.md").write_text("# Ärger\n", "utf-8")
    (root / "notes" / "page.html").write_text(HTML)
    (root / "report.pdf").write_bytes(b"%PDF-1.7 nothing")
    (root / "sheet.xlsx").write_bytes(b"PK")
    (root / ".env").write_text("secret")
    (root.parent / "outside.txt").write_text("secret")
    (root / "link.txt").symlink_to(root.parent / "outside.txt")
    (root / "shown.txt").symlink_to(root / ".env")
    return root


@pytest.fixture(scope="module")
def searcher(tmp_path_factory) -> Iterator[Searcher]:
    index = tmp_path_factory.mktemp("index-of-originals") / "index"
    swiftlet.build([Document(name, "a text", metadata=each) for name, each in NAMES.items()], index)
    with swiftlet.open(index) as opened:
        yield opened


@pytest.fixture
def ask(make_application, searcher, folder) -> Callable[..., Any]:
    application = make_application(searcher, files=folder)
    return lambda path, **request: application.ask("GET", path, **request)


@pytest.mark.parametrize(
    ("path", "content", "media_type", "disposition"),
    [
        ("a", "# Ärger\n".encode(), "text/plain; charset=utf-8", "inline"),
        ("notes/page.html", HTML.encode(), "text/plain; charset=utf-8", "inline"),
        ("report.pdf%23page%3D2", b"%PDF-1.7 nothing", "application/pdf", "inline"),
        ("sheet", b"PK", "application/octet-stream", "attachment"),
    ],
)
def test_a_document_gives_its_file_as_nothing_that_runs(
    ask, path, content, media_type, disposition
):
    answer = ask(f"/files/{path}")
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-type"] == media_type
    assert answer.headers["content-disposition"].startswith(f"{disposition}; filename")
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; " if "pdf" not in path else "default-src 'none'")


@pytest.mark.parametrize(
    "name",
    [
        "up",
        "root",
        "link",
        "hidden",
        "hidden link",
        "folder",
        "gone",
        "nul",
        "long",
        "number",
        "nothing",
    ],
)
def test_nothing_outside_the_folder_and_nothing_hidden_is_given(ask, name):
    answer = ask(f"/files/{name}")
    assert answer.status_code == 404
    assert answer.json()["type"] == "/docs#unknown-file"
    assert "secret" not in answer.text


@pytest.mark.parametrize("taken", ["page.html", "."])
def test_a_link_that_comes_while_a_file_is_looked_up_gives_nothing(ask, folder, monkeypatch, taken):
    kept, found = folder.parent / "kept", os.path.realpath
    outside = folder.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "page.html").write_text("secret")
    place = folder / "notes" / taken

    def find_and_take(path: Path) -> str:
        name = found(path)
        place.rename(kept)
        place.symlink_to(outside / taken)
        return name

    with monkeypatch.context() as patched:
        patched.setattr(os.path, "realpath", find_and_take)
        answer = ask("/files/notes/page.html")
    place.unlink()
    kept.rename(place)
    assert (answer.status_code, "secret" in answer.text) == (404, False)
    assert ask("/files/notes/page.html").content == HTML.encode()


def test_a_file_that_is_exchanged_while_it_is_sent_is_sent_as_it_was(ask, folder, monkeypatch):
    def exchange(opened: Any) -> os.stat_result:
        status = stat_of(opened)
        if (status.st_ino, status.st_dev) == original:
            new = folder / "new"
            new.write_text("something longer than the pages that was there before, and secret")
            new.replace(folder / "notes" / "page.html")
        return status

    was, stat_of = (folder / "notes" / "page.html").stat(), os.fstat
    original = was.st_ino, was.st_dev
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fstat", exchange)
            answer = ask("/files/notes/page.html")
    finally:
        (folder / "notes" / "page.html").write_text(HTML)
    assert (answer.status_code, answer.content) == (200, HTML.encode())


@pytest.mark.parametrize("path", ["../outside.txt", "%2e%2e/outside.txt", "report.pdf", ".env"])
def test_a_path_is_no_id(ask, path):
    assert ask(f"/files/{path}").status_code == 404


def test_the_route_needs_a_search_key_and_a_folder(make_application, searcher, folder, tmp_path):
    key = ApiKey(["a-key-of-16-signs"], variable="SWIFTLET_SEARCH_KEYS")
    locked = make_application(searcher, files=folder, search_key=key)
    assert locked.ask("GET", "/files/a").status_code == 401
    headers = {"Authorization": "Bearer a-key-of-16-signs"}
    assert locked.ask("GET", "/files/a", headers=headers).status_code == 200
    assert locked.ask("GET", "/info", headers=headers).json()["files"] is True
    plain = make_application(searcher)
    assert plain.ask("GET", "/files/a").status_code == 404
    assert plain.ask("GET", "/info").json()["files"] is False
    with pytest.raises(InvalidArgumentError, match="there is no such folder"):
        make_application(searcher, files=tmp_path / "none")
