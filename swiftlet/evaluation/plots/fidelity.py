"""The figures of a fidelity: errors by dimensions, the bound of lemma 1, lengths of texts (002)."""

from math import log
from typing import TYPE_CHECKING

import numpy as np

from swiftlet.evaluation.fidelity import Fidelity
from swiftlet.evaluation.plots.lines import Curve, Level, LinePanel, plot_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_fidelity(found: Fidelity) -> "Figure":
    """Draw what projections lose, and what sufficed, as in figures 2 and 3 of 002.

    Figures are left out in which no number of dimensions that was tried sufficed.

    :raises MissingExtraError: When matplotlib is not installed.
    """
    dimensions = np.array(found.dimensions, dtype=float)
    lost = 1 - np.array(found.recalls)
    panels = [
        LinePanel(
            "share of errors",
            (
                Curve("pairs in the wrong order", dimensions, np.array(found.errors)),
                Curve(f"best text not among the first {found.asked.rank}", dimensions, lost),
            ),
            x_label="dimensions",
            title="what is lost",
            levels=(Level(found.asked.error, f"{found.asked.error:g}"),),
            markers=True,
            logarithmic_x=True,
        )
    ]
    if found.tightness:
        terms, enough = map(np.array, zip(*found.tightness, strict=True))
        bound = 2 * log(4 / found.asked.error) * terms
        panels.append(
            LinePanel(
                "dimensions",
                (
                    Curve("measured", terms, enough.astype(float)),
                    Curve("guaranteed by lemma 1", terms, bound, dashed=True),
                ),
                x_label="1 / (ε²/2 − ε³/3)",
                title="enough for pairs, by their margin ε",
                markers=True,
                logarithmic_x=True,
                logarithmic_y=True,
            )
        )
    groups = [each for each in found.groups if each[1] is not None]
    if len(groups) > 1:
        lengths, enough = np.array(groups, dtype=float).T
        panels.append(
            LinePanel(
                "dimensions",
                (Curve("enough", lengths, enough),),
                x_label="words of the longest text",
                title=f"enough for the first {found.asked.rank}, each length alone",
                markers=True,
                y_limits=(0, None),
            )
        )
    return plot_lines(panels)
