"""Figures are written completely, with the same bytes each time, and change no global state."""

import struct
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest

from swiftlet.errors import InvalidArgumentError, StorageError
from swiftlet.evaluation.plots.figures import COLOURS, new_figure, save_figure


def png_size(path: Path) -> tuple[int, int]:
    """Width and height in pixels, from the header."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def drawn():
    figure = new_figure(3.0, 2.0, 2)
    for axes in figure.axes:
        axes.plot([1, 2, 3], [3, 1, 2])
    return figure


def test_a_png_has_150_dots_an_inch(tmp_path):
    save_figure(drawn(), tmp_path / "figure.png")
    assert png_size(tmp_path / "figure.png") == (960, 360)
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]


@pytest.mark.parametrize("suffix", [".png", ".svg", ".PNG"])
def test_the_same_figure_gives_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{number}{suffix}" for number in range(2)]
    for path in paths:
        save_figure(drawn(), path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert b"<dc:date>" not in first


def test_drawing_changes_no_setting_and_never_loads_pyplot(tmp_path):
    before = dict(mpl.rcParams)
    save_figure(drawn(), tmp_path / "figure.svg")
    assert dict(mpl.rcParams) == before
    script = f"""
import sys
from pathlib import Path
from swiftlet.evaluation.plots.figures import new_figure, save_figure
save_figure(new_figure(1, 1), Path({str(tmp_path)!r}) / "empty.png")
print("matplotlib.pyplot" in sys.modules)
"""
    answer = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert answer.stdout == "False\n"
    assert png_size(tmp_path / "empty.png") == (210, 210)


def test_a_figure_that_cannot_be_written_leaves_the_earlier_one(tmp_path):
    path = tmp_path / "figure.png"
    save_figure(drawn(), path)
    before = path.read_bytes()
    with pytest.raises(InvalidArgumentError, match=r"figure.gif ends in neither .png nor .svg"):
        save_figure(drawn(), tmp_path / "figure.gif")
    with pytest.raises(StorageError, match=r"cannot write .*missing"):
        save_figure(drawn(), tmp_path / "missing" / "figure.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(StorageError, match=r"cannot write .*folder.png"):
        save_figure(drawn(), tmp_path / "folder.png")
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["figure.png", "folder.png"]


def test_no_two_curves_have_one_colour():
    assert len(set(COLOURS)) == len(COLOURS)
