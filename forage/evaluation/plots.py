"""Pictures of learning: curves for a page, sparklines for a terminal."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from forage.core.errors import ForageError
from forage.evaluation.curves import aggregate_curve, fill_forward
from forage.evaluation.look import (
    DASHES,
    FAINT,
    INK,
    PALETTE,
    QUIET,
    caption,
    ends_of,
    head,
    keep_in_view,
    ramp,
    room_for,
    save_figure,
    sheet,
    style,
)
from forage.evaluation.profiles import Profile
from forage.evaluation.statistics import FEW, Ends, Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Run = tuple[str, Float[np.ndarray, " points"], Float[np.ndarray, "seeds points"]]
"""A label, the environment steps of each point, and each seed's value there (NaN for none)."""

LONGEST = 36  # letters of a label; more would leave no room for the curve
BANDED = 3  # seeds from which on a line has a band: Student's of two is 12.7 standard errors wide to either side
SUFFIXES = (".png", ".svg", ".pdf")
BARS = "▁▂▃▄▅▆▇█"


def curve(
    path: str | pathlib.Path,
    runs: Sequence[Run],
    title: str,
    ylabel: str = "return",
    xlabel: str = "environment steps",
    references: Sequence[tuple[str, float]] = (),
    confidence: float = 0.95,
    size: tuple[float, float] = (7.2, 4.2),
    span: tuple[float, float] | None = None,
    finals: Sequence[tuple[int, float, Score]] = (),
    ordered: bool = False,
    within: Ends | None = None,
) -> pathlib.Path:
    """Draw learning curves into one picture, a PNG, an SVG or a PDF by the path's suffix, and return the path.

    Each run is a line, the interquartile mean over its seeds, in a band, its interval at `confidence`
    (see `aggregate_curve`), with its label at the line's end. A run alone shows its seeds as thin lines, too, on which
    a seed's last value stands until an episode of it ends again. A band far wider than the lines leaves the picture.
    `references` are dashed levels with a label, such as a random policy's return. `size` is in inches.
    `span` is a range of the horizontal axis that is shaded, such as that of the contexts that were trained on.
    `finals` are scores of final evaluations, drawn as diamonds with their intervals: the number of the run whose colour
    it has, the step, and the score.
    `ordered`: runs are of values in order, and take their colours from one ramp, light to dark.
    `within`: the least and the most that a value can be, which bands do not leave.
    """
    path = check_suffix(path)
    if not runs:
        raise ForageError(f"{path.name} has nothing to show: give at least one run, a (label, steps, values).")
    figure = _figure(runs, title, ylabel, xlabel, references, confidence, size, finals, ordered, within)
    if span is not None:
        figure.axes[0].axvspan(*span, color=FAINT, alpha=0.6, linewidth=0, zorder=0)
    return save_figure(figure, path)


def check_suffix(path: str | pathlib.Path) -> pathlib.Path:
    """Return the path of a picture. Raise `ForageError` if its suffix is that of no picture."""
    path = pathlib.Path(path)
    if path.suffix not in SUFFIXES:
        raise ForageError(f"A picture is a {', a '.join(SUFFIXES[:-1])} or a {SUFFIXES[-1]}, and {path.name} is none.")
    return path


def profiles(path: str | pathlib.Path, runs: Sequence[tuple[str, Profile]], xlabel: str = "return") -> pathlib.Path:
    """Draw performance profiles, the share of seeds that score above each level, and return the path."""
    return save_figure(draw_profiles(runs, xlabel), pathlib.Path(path))


def draw_profiles(runs: Sequence[tuple[str, Profile]], xlabel: str = "return") -> Figure:
    """Return a figure of performance profiles."""
    figure = sheet(7.2, 3.4, dpi=200)
    axes = figure.add_subplot()
    for index, (label, profile) in enumerate(runs):
        color = PALETTE[index % len(PALETTE)]
        axes.fill_between(profile.thresholds, profile.low, profile.high, color=color, alpha=0.16, linewidth=0)
        axes.plot(profile.thresholds, profile.share, color=color, linewidth=2, label=label)
    style(axes, "share of seeds above it", xlabel)
    axes.set_ylim(-0.02, 1.04)
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    return figure


def sparkline(values: Sequence[float] | Float[np.ndarray, " points"], width: int = 40) -> str:
    """Return a line of text that shows the course of values: `▁▂▄▇█`, lowest to highest.

    More values than `width` are averaged into `width` columns; fewer take a column each. A column without a finite
    value is blank. Values that are all the same stand at half height.
    """
    if width < 1:
        raise ForageError(f"A sparkline is at least 1 column wide, and was asked to be {width}.")
    values = np.asarray(values, np.float64).ravel()
    columns = np.array_split(values, min(width, len(values))) if len(values) else []
    finite = [column[np.isfinite(column)] for column in columns]
    heights = [column.mean() for column in finite if len(column)]
    low, high = min(heights, default=0), max(heights, default=0)

    def bar(column: np.ndarray) -> str:
        if not len(column):
            return " "
        if high == low:
            return BARS[3]
        return BARS[min(len(BARS) - 1, int((column.mean() - low) / (high - low) * len(BARS)))]

    return "".join(bar(column) for column in finite)


def _figure(
    runs: Sequence[Run],
    title: str,
    ylabel: str,
    xlabel: str,
    references: Sequence[tuple[str, float]],
    confidence: float,
    size: tuple[float, float],
    finals: Sequence[tuple[int, float, Score]] = (),
    ordered: bool = False,
    within: Ends | None = None,
) -> Figure:
    figure = sheet(*size, dpi=200)
    axes = figure.add_subplot()
    labels = []
    shades = ramp(len(runs)) if ordered else PALETTE
    for index, (label, steps, values) in enumerate(runs):
        color = shades[index % len(shades)]
        dashes = DASHES[index // len(shades) % len(DASHES)]
        look = {"color": color, "linestyle": dashes}
        end = draw_run(axes, steps, values, look, confidence, len(runs) == 1, within)
        labels.append((label, end, color, "bold"))
    for label, level in references:
        axes.axhline(level, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        labels.append((label, level, QUIET, "normal"))

    finals = [(number, step, one) for number, step, one in finals if math.isfinite(one.value)]
    cut = draw_finals(axes, [(step, one, shades[number % len(shades)]) for number, step, one in finals])

    style(axes, ylabel, xlabel)
    axes.set_xlim(
        0, max([*(np.max(steps) for _, steps, _ in runs if len(steps)), *(s for _, s, _ in finals)], default=0) or 1
    )
    seeds = [len(values) for _, _, values in runs]
    thin = ", each seed a thin line" if len(seeds) == 1 and seeds[0] > 1 else ""
    if max(seeds) < BANDED:
        said = [caption(seeds) + (", no interval" if max(seeds) > 1 else "") + thin]
    else:
        few = "(Student's below five seeds, none below three) " if min(seeds) < FEW else ""
        said = [caption(seeds, f"{few}shaded{thin}", confidence)]
    if finals:
        said.append(finals_caption(cut))
    head(axes, title, said)
    label_ends(figure, axes, [entry for entry in labels if entry[0]])
    return figure


def draw_run(
    axes: Axes,
    steps: np.ndarray,
    values: np.ndarray,
    look: dict[str, Any],
    confidence: float,
    show_seeds: bool,
    within: Ends | None = None,
) -> float:
    """Draw one run and return the final height of its line, NaN without a line."""
    if not len(steps):
        return float("nan")
    steps, middle, low, high = aggregate_curve(steps, values, confidence, within=within)
    if show_seeds and len(values) > 1:
        axes.plot(
            steps, fill_forward(np.asarray(values, float)).T, color=look["color"], linewidth=0.7, alpha=0.3, zorder=2
        )
    seen = axes.dataLim.frozen()
    if len(values) >= BANDED:
        axes.fill_between(steps, low, high, color=look["color"], alpha=0.16, linewidth=0, zorder=3)
    axes.dataLim.set(seen)  # the band of few seeds would flatten all lines
    (line,) = axes.plot(steps, middle, **look, linewidth=2, solid_capstyle="round", zorder=4)
    known = np.flatnonzero(np.isfinite(middle))
    bottom, top = room_for(np.append(middle, values), [*low, *high] if len(values) >= BANDED else [])
    axes.update_datalim([(step, end) for step in steps[known][:1] for end in (bottom, top)])
    if len(known) == 1:  # a line through one point is invisible; a dot is not
        line.set(marker="o", markersize=5, clip_on=False)
    return float(middle[known[-1]]) if len(known) else math.nan


def draw_finals(axes: Axes, finals: Sequence[tuple[float, Score, str]]) -> bool:
    """Draw scores of final evaluations, each with its step and colour; return whether one's interval goes beyond."""
    for step, one, color in finals:
        look: dict[str, Any] = {"markersize": 6, "markeredgecolor": "white", "zorder": 6, "clip_on": False}
        axes.plot([step], [one.value], "D", color=color, **look)
    drawn = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.lines] or [np.zeros(0)])
    known = [end for end in ends_of([one for _, one, _ in finals]) if end is not None and math.isfinite(end)]
    if finals:
        keep_in_view(axes, drawn, [*axes.dataLim.intervaly, *known])
    bottom, top = axes.get_ylim()
    for step, one, color in finals:
        if one.low is not None and one.high is not None:  # not clipped: at the right end half a line is outside
            ends = [max(one.low, bottom), min(one.high, top)]
            axes.plot([step] * 2, ends, color=color, linewidth=1.6, zorder=5, clip_on=False)
    return any(not bottom <= end <= top for end in known)


def finals_caption(cut: bool) -> str:
    """Explain the diamonds. `cut`: an interval goes beyond the picture."""
    return f"diamond: final evaluation{', whose interval goes on beyond the picture' if cut else ''}"


def label_ends(figure: Figure, axes: Axes, labels: list[tuple[str, float, str, str]]) -> None:
    """Write each label to the right of the axes, at the height its line ends, moved just enough not to overlap."""
    bottom, top = axes.get_ylim()
    texts = []
    for label, end, color, weight in labels:
        label = label if len(label) <= LONGEST else f"…{label[1 - LONGEST :]}"  # of a path, its end tells
        text = label if math.isfinite(end) else f"{label} (no score yet)"
        height = min(max(end, bottom), top) if math.isfinite(end) else bottom
        look = {"color": color, "fontsize": 9, "fontweight": weight, "va": "center"}
        place = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "annotation_clip": False}
        texts.append(axes.annotate(text, (1, height), (7, 0), **place, **look))
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)  # it settles how many points apart two heights are
    axes_height = axes.get_window_extent().height * 72 / figure.dpi
    places = axes.transScale + axes.transLimits  # from data to shares of the axes, also where a scale is logarithmic
    heights = places.transform([(axes.get_xlim()[1], text.xy[1]) for text in texts])[:, 1] * axes_height
    for text, height, placed in zip(texts, heights, _spread(heights, 12.0, 6.0, axes_height), strict=True):
        text.xyann = (7, placed - height)


def _spread(heights: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Move heights apart, by as little as possible in all (squared), until none are nearer than `gap`.

    They stay between `low` and `high`, or start from `low` if that is too narrow.
    """
    order = np.argsort(heights, kind="stable")
    # Less their minimum distances, the heights in order need only not decrease: that is isotonic regression, where
    # neighbours that would cross are pooled at their mean.
    blocks: list[list[float]] = []
    for rank, index in enumerate(order):
        blocks.append([float(heights[index]) - rank * gap])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    flat = np.array([np.mean(block) for block in blocks for _ in block])
    placed = np.empty(len(heights))
    placed[order] = np.maximum(low, np.minimum(flat, high - gap * (len(heights) - 1))) + gap * np.arange(len(heights))
    return placed
