"""The common look of all pictures: colours, fonts, axes, limits and captions."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from forage.core.errors import ForageError
from forage.evaluation.statistics import Score, name_of_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Told apart by lightness as well as by hue; after the eighth they come again with other dashes.
PALETTE = ("#2563c9", "#e4652b", "#129473", "#a8327d", "#d29a06", "#6a4bc4", "#2aa5c9", "#6b7280")
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
INK, QUIET, FAINT = "#1f2430", "#6b7280", "#e6e8ec"
RAMP = ("#74aaf0", PALETTE[0], "#0b1f4b")  # of values in order, the first lightest
BEYOND = 0.25  # of the range of what was measured: so far intervals are shown outside it


def ramp(number: int) -> list[str]:
    """Return colours from light to dark, for values in order."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    shades = LinearSegmentedColormap.from_list("ramp", RAMP)
    return [to_hex(shades(share)) for share in np.linspace(0, 1, number)]


loading: list[threading.Thread] = []
"""The thread that loads Matplotlib, if there is one."""


def load_drawing() -> None:
    """Load Matplotlib in another thread: it takes half a second, in which a run can train."""

    def load() -> None:
        with contextlib.suppress(Exception):  # who draws will see the error
            empty_sheet(1, 1, 50).savefig(io.BytesIO())  # with the fonts and the writer of files

    if not loading and "matplotlib.figure" not in sys.modules:
        loading.append(threading.Thread(target=load, daemon=True))
        loading[0].start()


def sheet(width: float, height: float, dpi: int = 150) -> Figure:
    """Return an empty figure of a size in inches, white, with room at its edges."""
    for thread in loading:
        thread.join()
    return empty_sheet(width, height, dpi)


def empty_sheet(width: float, height: float, dpi: int) -> Figure:
    """Return a sheet, without waiting for the thread that loads Matplotlib."""
    from matplotlib.figure import Figure  # a third of a second, which only those who draw should pay
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.09)
    return Figure(figsize=(width, height), dpi=dpi, layout=layout, facecolor="white")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a picture and return its path. Raise `ForageError` if it cannot be written."""
    take_literally(figure)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    except OSError as error:
        raise ForageError(f"Could not save {path}: {error.strerror or error}.") from error
    return path


def take_literally(figure: Figure) -> None:
    """Show names as they are: a dollar in one does not begin a formula. Numbers at axes may be formulas."""
    from matplotlib.text import Text

    sides = [side for axes in figure.axes for side in (axes.xaxis, axes.yaxis)]
    numbers = {text for side in sides for text in (*side.get_ticklabels(), *side.get_ticklabels(minor=True))}
    for text in figure.findobj(Text):
        if text not in numbers:
            text.set_parse_math(False)


def head(axes: Axes, title: str, lines: Sequence[str]) -> None:
    """Write a title above axes, and below it lines on the data and the method."""
    axes.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=8 + 12 * len(lines))
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "linespacing": 1.3}
    said = axes.annotate("\n".join(lines), (0, 1), (0, 6), color=QUIET, fontsize=8.5, **place)
    said.set_in_layout(False)  # its room is the title's padding; it may run on over the labels' margin


def caption(seeds: Sequence[int], interval: str = "", confidence: float = 0.95) -> str:
    """Describe the meaning of a line and its interval in the caption of a picture.

    `seeds` are those of each line, and `interval` is the way it is drawn, such as `shaded`.
    """
    if max(seeds) == 1:
        return "1 seed, no interval" if len(seeds) == 1 else "1 seed each, no interval"
    number = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
    said = f"{name_of_mean(max(seeds))} of {number} seeds"
    return f"{said}, {confidence * 100:g} % interval {interval}" if interval else said


def keep_in_view(
    axes: Axes, values: Sequence[float] | np.ndarray, ends: Sequence[float | None], axis: Literal["x", "y"] = "y"
) -> bool:
    """Set the limits of an axis so that all values are in view; return whether intervals with these ends go beyond.

    An interval of few seeds can be many times as wide as all that was measured, which would then be flat. It is shown
    up to a quarter of the values' range outside it.
    """
    known = [end for end in ends if end is not None and np.isfinite(end)]
    if not np.isfinite(values).any() or not known:
        return False
    bottom, top = room_for(values, known)
    margin = 0.06 * (top - bottom) or 0.06
    (axes.set_ylim if axis == "y" else axes.set_xlim)(bottom - margin, top + margin)
    return bool(min(known) < bottom - margin or max(known) > top + margin)


def room_for(values: Sequence[float] | np.ndarray, ends: Sequence[float]) -> tuple[float, float]:
    """Return limits that hold all values, and the ends of intervals up to a quarter of the values' range outside it."""
    finite = np.asarray(values, float)[np.isfinite(values)]
    known = np.asarray(ends, float)[np.isfinite(ends)]
    if not len(finite) or not len(known):
        return (finite.min(), finite.max()) if len(finite) else (np.nan, np.nan)
    low, high = finite.min(), finite.max()
    room = BEYOND * (high - low) if high > low else np.inf
    return float(min(low, max(low - room, known.min()))), float(max(high, min(high + room, known.max())))


def ends_of(scores: Sequence[Score]) -> list[float | None]:
    """Return the ends of all scores' intervals."""
    return [end for one in scores for end in (one.low, one.high)]


def style(axes: Axes, ylabel: str, xlabel: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(QUIET)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=8.5, length=0)
    axes.tick_params(axis="x", length=3)
    axes.margins(y=0.06)
    axes.set_ylabel(ylabel, color=INK, fontsize=9.5)
    axes.set_xlabel(xlabel, color=INK, fontsize=9.5)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(count_label))
    if max(abs(limit) for limit in axes.get_ylim()) >= 10_000:
        axes.yaxis.set_major_formatter(FuncFormatter(count_label))


def count_label(x: float, _position: int | None = None) -> str:
    """Return a round number as people write it: 0, 500, 2.5k, 100k, 1M, 1.5B."""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= unit:
            return f"{x / unit:g}{name}".replace("-", "\N{MINUS SIGN}")
    return f"{x:g}".replace("-", "\N{MINUS SIGN}")
