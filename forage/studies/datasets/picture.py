"""A picture of a data set: returns, lengths, actions and observations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from forage.evaluation.look import DASHES, INK, PALETTE, QUIET, RAMP, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from forage.studies.datasets.show import DatasetDescription, Leaves

MOST = 8  # entries that have a line of their own
BINS = 30


def draw_data(path: Path, found: DatasetDescription, title: str, seen: Leaves, acted: Leaves) -> Path:
    """Draw four panels: the histograms of returns, lengths and actions, and a map of two observation entries."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 5.4), dpi=200, layout="constrained", facecolor="white")
    panels = figure.subplots(2, 2).ravel()
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=12, fontweight="bold")
    returns(panels[0], found)
    bars(panels[1], found.lengths, "episodes", "length")
    entries(panels[2], acted, "transitions", "action")
    places(panels[3], seen)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def bars(axes: Axes, values: np.ndarray, what: str, of: str) -> None:
    if len(values):
        axes.hist(values, BINS, color=PALETTE[0], alpha=0.85)
    style(axes, what, of)


def returns(axes: Axes, found: DatasetDescription) -> None:
    """Draw the returns, and the ends of the normalised score if they are known."""
    bars(axes, found.returns, "episodes", "return")
    for label, level in (found.ends or {}).items():
        axes.axvline(level, color=QUIET, linewidth=1, linestyle=DASHES[1])
        where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top"}
        axes.annotate(label, (level, 1), (2, -2), color=QUIET, fontsize=8, **where)


def entries(axes: Axes, leaves: Leaves, what: str, of: str) -> None:
    """Draw the frequency of actions: a bar for each number, or a line for each entry of a vector."""
    arrays = [(array.reshape(len(array), -1), space) for array, space in leaves.values()]
    flat, space = arrays[0]
    style(axes, what, of)
    if isinstance(space, gymnasium.spaces.Discrete):
        numbers, counts = np.unique(flat[:, 0], return_counts=True)
        axes.bar(numbers, counts, color=PALETTE[0], alpha=0.85)
        axes.set_ylim(bottom=0)
        return
    for i in range(min(flat.shape[1], MOST)):
        values = flat[:, i][np.isfinite(flat[:, i])].astype(float)
        count, edges = np.histogram(values, BINS)
        axes.stairs(count, edges, color=PALETTE[i % len(PALETTE)], linewidth=1.6, label=f"{of}[{i}]")
    if flat.shape[1] > 1:
        axes.legend(frameon=False, fontsize=7.5, labelcolor=INK)


def places(axes: Axes, leaves: Leaves) -> None:
    """Draw the density of the two observation entries that vary most, or the histogram of a single one."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    flat = np.concatenate([array.reshape(len(array), -1).astype(float) for array, _ in leaves.values()], 1)
    flat = flat[np.isfinite(flat).all(1)]
    names = names_of(leaves)
    deviation = flat.std(0) if len(flat) else np.zeros(flat.shape[1])
    moving = np.flatnonzero(deviation > 0)
    if len(moving) < 2:
        column = moving[0] if len(moving) else 0
        bars(axes, flat[:, column], "transitions", names[column])
        return
    span = np.ptp(flat, axis=0)
    one, other = sorted(moving[np.argsort(-(deviation / span.clip(1e-12))[moving], kind="stable")][:2])
    shades = LinearSegmentedColormap.from_list("visits", ["#c6d9f5", *RAMP[1:]])
    count, x, y = np.histogram2d(flat[:, one], flat[:, other], 40)
    style(axes, names[other], names[one])
    axes.grid(visible=False)
    axes.pcolormesh(x, y, np.ma.masked_equal(count.T, 0), cmap=shades, norm=LogNorm(1, max(count.max(), 10)))


def names_of(leaves: dict[str, tuple[np.ndarray, Any]]) -> list[str]:
    """Return a name for each entry."""
    found = []
    for name, (array, _) in leaves.items():
        width = int(np.prod(array.shape[1:]))
        found += [f"{name}[{i}]" for i in range(width)] if width > 1 else [name]
    return found
