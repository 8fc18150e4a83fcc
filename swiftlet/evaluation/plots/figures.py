"""The palette and style of all figures, and how they are saved.

Figures are made without pyplot, so drawing one changes no global state.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from swiftlet.errors import InvalidArgumentError, StorageError
from swiftlet.extras import extra
from swiftlet.publication import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which can be told apart with any colour vision.
QUERY_COLOUR = "#E69F00"
DOCUMENT_COLOUR = "#0072B2"
COLOURS = (
    DOCUMENT_COLOUR, "#D55E00", "#009E73", "#CC79A7", QUERY_COLOUR, "#56B4E9", "#F0E442", "#000000",
    "#882255", "#44AA99",
)  # fmt: skip
GREYS = ("#999999", "#DDDDDD")
INK = "#333333"

_DOTS_PER_INCH = 150
_PADDING_INCHES = 0.08
_COLUMNS = 3
_LEGEND_INCHES = 0.4
_SUFFIXES = (".png", ".svg")


def new_figure(width_inches: float, height_inches: float, count: int = 1) -> "Figure":
    """An empty figure with `count` axes of this size, reached by `figure.axes`.

    At most three of them are side by side, so that they can be read on a page.

    :raises MissingExtraError: When matplotlib is not installed.
    """
    with extra("evaluation"):
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    layout = ConstrainedLayoutEngine(w_pad=_PADDING_INCHES, h_pad=_PADDING_INCHES, wspace=0.03)
    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    size = (width_inches * columns + _LEGEND_INCHES, height_inches * rows + _LEGEND_INCHES)
    figure = Figure(figsize=size, layout=layout)
    figure.set_facecolor("white")
    for number in range(count):
        _style(figure.add_subplot(rows, columns, number + 1))
    return figure


def use_logarithms(axes: "Axes", which: Literal["x", "y"]) -> None:
    """Give an axis a logarithmic scale, labelled at 1, 2 and 5 times powers of ten."""
    with extra("evaluation"):
        from matplotlib.ticker import LogLocator, NullLocator
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _position: f"{value:,g}")


def check_figure_path(path: Path) -> None:
    """Refuse a path that no figure can be saved to, before the work is done.

    :raises InvalidArgumentError: When its suffix is not known.
    :raises StorageError: When its folder does not exist.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidArgumentError(f"{path} ends in neither {' nor '.join(_SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise StorageError(f"cannot write {path}: No such file or directory")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG (150 dots per inch) or SVG, as the name of `path` ends.

    The same figure gives the same bytes: no date is written. An error leaves `path` unchanged.

    :raises InvalidArgumentError: When the name ends otherwise.
    :raises StorageError: When the file system refuses.
    """
    check_figure_path(path)
    suffix = path.suffix.lower()
    with extra("evaluation"):
        import matplotlib as mpl
    content = io.BytesIO()
    # SVG names its parts at random unless salted, which only a setting can do.
    with mpl.rc_context({"svg.hashsalt": "swiftlet"}):
        figure.savefig(
            content,
            format=suffix[1:],
            dpi=_DOTS_PER_INCH,
            metadata={"Date": None} if suffix == ".svg" else {"Software": None},
        )
    replace_file(path, content.getvalue())


def _style(axes: "Axes") -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color("#888888")
    axes.tick_params(colors=INK, labelsize=9)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_color(INK)
    axes.title.set(color=INK, fontsize=11)
    axes.grid(color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
