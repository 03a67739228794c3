"""A picture of what a setting is worth: scores against its values."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import Any

from forage.evaluation.plots import INK, PALETTE, QUIET, ramp, save, style
from forage.evaluation.statistics import Score

MOST_TICKS = 10  # of values that are all written below the axis


def against(
    path: str | pathlib.Path,
    lines: Sequence[tuple[str, Sequence[float], Sequence[Score]]],
    title: str,
    xlabel: str,
    ylabel: str = "return",
) -> pathlib.Path:
    """Draw scores against the values of a setting, with their intervals as bars, and return the path.

    Each line is a label, values in order, and their scores; several are of another setting's values in order. Values
    that are all above 0 and lie a factor of 20 or more apart are on a logarithmic axis. A score that is not finite is
    left out.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.8), dpi=200, layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    for (label, values, scores), color in zip(lines, ramp(len(lines)) if len(lines) > 1 else PALETTE, strict=False):
        known = [(value, one) for value, one in zip(values, scores, strict=True) if math.isfinite(one.value)]
        middle = [one.value for _, one in known]
        below = [0.0 if one.low is None else one.value - one.low for _, one in known]
        above = [0.0 if one.high is None else one.high - one.value for _, one in known]
        look: dict[str, Any] = {"color": color, "marker": "o", "capsize": 3, "label": label}
        axes.errorbar([value for value, _ in known], middle, [below, above], **look)
    style(axes, ylabel, xlabel)
    every = sorted({value for _, values, _ in lines for value in values})
    if every[0] > 0 and every[-1] >= 20 * every[0]:
        axes.set_xscale("log")
    if len(every) <= MOST_TICKS:
        axes.set_xticks(every, labels=[f"{value:g}" for value in every])
        axes.set_xticks([], minor=True)
    axes.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=20)
    seeds = {one.seeds for _, _, scores in lines for one in scores}
    number = f"{min(seeds)}" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
    middle = "mean" if max(seeds) < 4 else "interquartile mean"
    subtitle = f"{middle} of {number} seeds, 95 % interval as bars" if max(seeds) > 1 else "1 seed each, no interval"
    said = axes.annotate(subtitle, (0, 1), (0, 6), "axes fraction", "offset points", color=QUIET, fontsize=8.5)
    said.set_in_layout(False)
    if len(lines) > 1:
        axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    path = pathlib.Path(path)
    return save(figure, path)
