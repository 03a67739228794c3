"""Pictures of several panels: learning curves of many runs, a panel for each environment or metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from forage.evaluation.look import DASHES, INK, PALETTE, QUIET, caption, sheet, style
from forage.evaluation.plots import BANDED, Run, draw_finals, draw_run, finals_caption
from forage.evaluation.statistics import FEW, Ends, Score

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

ACROSS = 3  # panels in a row
PANEL = (3.4, 2.6)  # inches


class Panel(NamedTuple):
    """Curves in one panel, under a title of its own."""

    title: str
    runs: Sequence[Run]
    ylabel: str = "return"
    xlabel: str = "environment steps"
    finals: Sequence[tuple[int, float, Score]] = ()
    within: Ends | None = None


def draw_panels(
    panels: Sequence[Panel], title: str = "", size: tuple[float, float] | None = None, across: int = ACROSS
) -> Figure:
    """Draw panels side by side under one legend; a label has the same colour in all of them.

    A line is the mean over seeds that `aggregate_curve` computes, in its interval; diamonds are final evaluations.
    `size` is that of the whole picture in inches.
    """
    across = min(across, len(panels))
    down = -(-len(panels) // across)
    figure = sheet(*(size or (PANEL[0] * across, PANEL[1] * down + 0.7)), dpi=200)
    places = figure.subplots(down, across, squeeze=False).ravel()
    looks = line_looks([label for panel in panels for label, _, _ in panel.runs])
    lines: dict[str, Artist] = {}
    cut = False
    for axes, panel in zip(places, panels, strict=False):
        for label, steps, values in panel.runs:
            before = len(axes.lines)
            draw_run(axes, steps, values, looks[label], 0.95, False, panel.within)
            if len(axes.lines) > before:
                lines.setdefault(label, axes.lines[before])
        labels = [label for label, _, _ in panel.runs]
        finals = [(step, one, looks[labels[number]]["color"]) for number, step, one in panel.finals]
        cut = draw_finals(axes, finals) or cut
        style(axes, panel.ylabel, panel.xlabel)
        axes.set_xlim(left=0)
        axes.set_title(panel.title, loc="left", color=INK, fontsize=9.5)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    if title:
        figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=12, fontweight="bold")
    if lines:
        look = {"frameon": False, "fontsize": 8.5, "labelcolor": INK, "ncols": min(4, len(lines))}
        where = "outside right upper" if title else "outside upper left"  # the caption is below, a title above
        figure.legend(list(lines.values()), list(lines), loc=where, **look | ({"ncols": 1} if title else {}))
    said = seeds_caption([len(values) for panel in panels for _, _, values in panel.runs])
    said += f"\n{finals_caption(cut)}" if any(panel.finals for panel in panels) else ""
    figure.supxlabel(said, x=0.01, ha="left", color=QUIET, fontsize=8.5)
    return figure


def line_looks(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the colour and the dashes of each label."""
    return {
        label: {"color": PALETTE[at % len(PALETTE)], "linestyle": DASHES[at // len(PALETTE) % len(DASHES)]}
        for at, label in enumerate(dict.fromkeys(labels))
    }


def seeds_caption(seeds: Sequence[int]) -> str:
    """Return the caption about lines of these numbers of seeds."""
    if max(seeds, default=1) < BANDED:
        return caption(seeds or [1]) + (", no interval" if max(seeds, default=1) > 1 else "")
    few = "(Student's below five seeds, none below three) " if min(seeds) < FEW else ""
    return caption(seeds, f"{few}shaded")
