"""A picture of scores in many conditions: a curve over one number, a map of two, or a bar for each condition."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from forage.evaluation.look import FAINT, INK, PALETTE, QUIET, caption, ends_of, keep_in_view, save_figure, sheet, style
from forage.evaluation.statistics import Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Cell(NamedTuple):
    """The score in one condition."""

    under: str  # its name
    fields: dict[str, float]  # the numbers that were set
    score: Score


def conditions(path: str | pathlib.Path, cells: Sequence[Cell], title: str) -> pathlib.Path | None:
    """Draw the scores of conditions with the same fields; return the path, or `None` if there are more than two fields.

    Over one field a line for each name in its interval; over two a map for each name, its cells light to dark by
    score; without any a dot for each name, with its interval.
    """
    if len(cells[0].fields) > 2:
        return None
    path = pathlib.Path(path)
    return save_figure(draw_conditions(cells, title), path)


def draw_conditions(cells: Sequence[Cell], title: str) -> Figure:
    names = list(cells[0].fields)
    under = list(dict.fromkeys(cell.under for cell in cells))
    groups = {name or "as it is": [cell for cell in cells if cell.under == name] for name in under}
    if len(names) == 2:
        figure = sheet(1.2 + 4.4 * len(groups), 4.2)
        maps(figure, groups, names)
        said = caption([cell.score.seeds for cell in cells])
    else:
        height = 4.2 if names else 1.6 + 0.4 * len(groups)
        figure = sheet(7.2, height)
        axes = figure.add_subplot()
        draw_lines(axes, groups, names[0]) if names else dots(axes, groups)
        scores = [cell.score for cell in cells]
        cut = keep_in_view(axes, [one.value for one in scores], ends_of(scores), "y" if names else "x")
        drawn = "shaded" if names else "as bars"
        said = caption([one.seeds for one in scores], f"{drawn}{', in places beyond the picture' if cut else ''}")
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=12, fontweight="bold")
    figure.supxlabel(f"return, {said}", x=0.01, ha="left", color=QUIET, fontsize=8.5)
    return figure


def draw_lines(axes: Axes, groups: dict[str, list[Cell]], name: str) -> None:
    for number, (label, cells) in enumerate(groups.items()):
        color = PALETTE[number % len(PALETTE)]
        cells = sorted(cells, key=lambda cell: cell.fields[name])
        at = [cell.fields[name] for cell in cells]
        if all(cell.score.low is not None for cell in cells):
            low, high = ([getattr(cell.score, end) for cell in cells] for end in ("low", "high"))
            axes.fill_between(at, low, high, color=color, alpha=0.16, linewidth=0)
        axes.plot(at, [cell.score.value for cell in cells], color=color, linewidth=2, marker="o", label=label)
    style(axes, "return", name.replace("_", " "))
    if len(groups) > 1:
        axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)


def dots(axes: Axes, groups: dict[str, list[Cell]]) -> None:
    for row, (cell,) in enumerate(groups.values()):
        low, high = cell.score.low, cell.score.high
        if low is not None and high is not None:
            axes.plot([low, high], [row, row], color=PALETTE[0], linewidth=2)
        axes.plot([cell.score.value], [row], "o", color=PALETTE[0], markersize=7)
    style(axes, "", "return")
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    axes.set_yticks(range(len(groups)), list(groups), color=INK)
    axes.set_ylim(len(groups) - 0.5, -0.5)


def maps(figure: Figure, groups: dict[str, list[Cell]], names: Sequence[str]) -> None:
    """Draw a map for each condition, all in one scale, with the score in each cell."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    shades = LinearSegmentedColormap.from_list("scores", ["#e3edfb", PALETTE[0], "#0b1f4b"])
    every = [cell.score.value for cells in groups.values() for cell in cells]
    low, high = min(every), max(every)
    rows, columns = names
    panels = np.atleast_1d(figure.subplots(1, len(groups), squeeze=True))
    for axes, (label, cells) in zip(panels, groups.items(), strict=True):
        down, across = (sorted({cell.fields[name] for cell in cells}) for name in (rows, columns))
        table = np.full((len(down), len(across)), np.nan)
        for cell in cells:
            table[down.index(cell.fields[rows]), across.index(cell.fields[columns])] = cell.score.value
        axes.imshow(table, cmap=shades, vmin=low, vmax=high, aspect="auto", origin="lower")
        dark = (table - low) / ((high - low) or 1) > 0.35
        for row, column in np.ndindex(table.shape) if table.size <= 100 else ():
            color = "white" if dark[row, column] else INK
            axes.text(column, row, f"{table[row, column]:.4g}", ha="center", va="center", fontsize=8, color=color)
        axes.set_xticks(range(len(across)), [f"{value:.4g}" for value in across])
        axes.set_yticks(range(len(down)), [f"{value:.4g}" for value in down])
        axes.tick_params(colors=QUIET, labelsize=8.5, length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel(columns.replace("_", " "), color=INK, fontsize=9.5)
        axes.set_ylabel(rows.replace("_", " "), color=INK, fontsize=9.5)
        if len(groups) > 1:
            axes.set_title(label, loc="left", color=INK, fontsize=9.5)
    bar = figure.colorbar(ScalarMappable(Normalize(low, high), shades), ax=list(panels), fraction=0.046, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, colors=QUIET)
