"""A picture of a map: the number of visits to each cell."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from forage.evaluation.look import FAINT, INK, PALETTE, QUIET, count_label, save_figure, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def heat_map(
    path: str | pathlib.Path,
    counts: Float[np.ndarray, "*map"],
    title: str,
    reachable: Bool[np.ndarray, "*map"] | None = None,
) -> pathlib.Path:
    """Draw the visits to each cell of a map, darker for more, on a logarithmic scale; return the path.

    Cells without visits are white, and those outside `reachable` are hatched and do not count. A map with one row of
    cells is drawn as a line of cells.
    """
    path = pathlib.Path(path)
    return save_figure(draw_map(counts, title, reachable), path)


def draw_map(counts: np.ndarray, title: str, reachable: np.ndarray | None) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm
    from matplotlib.ticker import FuncFormatter

    counts = np.atleast_2d(np.asarray(counts, float))
    able = np.ones(counts.shape, bool) if reachable is None else np.atleast_2d(reachable) | (counts > 0)
    rows, columns = counts.shape
    width = min(7.2, max(3.6, 4.6 * columns / rows))
    figure = sheet(width + 0.9, min(7.2, max(1.9, width * rows / columns + 0.9)))
    axes = figure.add_subplot()
    shades = LinearSegmentedColormap.from_list("visits", ["#c6d9f5", PALETTE[0], "#0b1f4b"])
    shown = np.ma.masked_equal(counts, 0)
    most = max(counts.max(), 10)
    least = min(most / 10, counts[counts > 0].min(initial=most))
    image = axes.imshow(shown, cmap=shades, norm=LogNorm(least, most), interpolation="nearest")
    if not able.all():
        corners = [(column - 0.5, row - 0.5) for row, column in np.argwhere(~able)]
        hatch_cells(axes, corners)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(QUIET)
    axes.set_title(title, fontsize=9.5, color=INK, loc="left", fontweight="bold")
    said = f"{100 * (counts > 0).sum() / max(able.sum(), 1):.0f} % of {able.sum():,} places visited"
    out = "" if able.all() else "; hatched: cannot be reached"
    axes.set_xlabel(f"{said}{out}", fontsize=8.5, color=QUIET)
    bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.02)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(count_label))
    bar.ax.yaxis.set_minor_formatter(FuncFormatter(count_label if most < 30 * least else lambda *_: ""))
    bar.outline.set_visible(False)
    bar.ax.tick_params(which="both", labelsize=8, colors=QUIET)
    bar.set_label("visits", fontsize=8.5, color=QUIET)
    return figure


def hatch_cells(axes: Axes, corners: Sequence[tuple[float, float]]) -> None:
    """Draw a hatched cell of size 1 from each of these corners."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    cells = [Rectangle(corner, 1, 1) for corner in corners]
    axes.add_collection(PatchCollection(cells, facecolor=FAINT, edgecolor="#c3c8d1", hatch="///", linewidth=0))
