"""A picture of a sweep: scores against the values of a setting."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import Any

from forage.evaluation.look import INK, PALETTE, caption, ends_of, head, keep_in_view, ramp, save_figure, sheet, style
from forage.evaluation.statistics import Score

MOST_TICKS = 10  # of values that are all written below the axis


def draw_sweep_scores(
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
    figure = sheet(7.2, 3.8, dpi=200)
    axes = figure.add_subplot()
    for (label, values, scores), color in zip(lines, ramp(len(lines)) if len(lines) > 1 else PALETTE, strict=False):
        known = [(value, one) for value, one in zip(values, scores, strict=True) if math.isfinite(one.value)]
        middle = [one.value for _, one in known]
        below = [0.0 if one.low is None else one.value - one.low for _, one in known]
        above = [0.0 if one.high is None else one.high - one.value for _, one in known]
        look: dict[str, Any] = {"color": color, "marker": "o", "capsize": 3, "label": label}
        axes.errorbar([value for value, _ in known], middle, [below, above], **look)
    drawn = [one for _, _, scores in lines for one in scores if math.isfinite(one.value)]
    cut = keep_in_view(axes, [one.value for one in drawn], ends_of(drawn))
    style(axes, ylabel, xlabel)
    every = sorted({value for _, values, _ in lines for value in values})
    if every[0] > 0 and every[-1] >= 20 * every[0]:
        axes.set_xscale("log")
    if len(every) <= MOST_TICKS:
        axes.set_xticks(every, labels=[f"{value:g}" for value in every])
        axes.set_xticks([], minor=True)
    seeds = [one.seeds for _, _, scores in lines for one in scores]
    head(axes, title, [caption(seeds, f"as bars{', some end beyond the picture' if cut else ''}")])
    if len(lines) > 1:
        axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    path = pathlib.Path(path)
    return save_figure(figure, path)
