"""A claim's picture: the arms' learning curves, and the measured values of each seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forage.evaluation.look import INK, PALETTE, QUIET, caption, save_figure, sheet, style
from forage.evaluation.plots import draw_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 80  # letters of a legend's line


def draw_claim(path: Path, result: Mapping[str, Any], environments: Mapping[str, str] | None = None) -> Path:
    """Draw learning curves of all arms on the left; on the right a dot for each seed, the score and its interval.

    `environments` names those of arms in another environment than the claim's; each environment has a row of its own,
    as returns in two environments have no scale in common. Where all arms learn from data, which no episode of training
    comes with, there is no left.
    """
    rows: dict[str, dict[str, tuple[str, Any]]] = {}
    for number, (label, arm) in enumerate(result["arms"].items()):
        where = (environments or {}).get(label, result["environment"])
        rows.setdefault(where, {})[label] = (PALETTE[number % len(PALETTE)], arm)
    most = max(map(len, rows.values()))
    curves = any(np.isfinite(np.array(arm["curve"]["return"], float)).any() for arm in result["arms"].values())
    figure = sheet(9.6 if curves else 5.4, 0.6 + 3.5 * len(rows))
    ratios = ((1, 1) if most > 4 else (3, 2)) if curves else (1,)
    panels = figure.subplots(len(rows), len(ratios), width_ratios=ratios, squeeze=False)
    for (where, arms), (*left, right) in zip(rows.items(), panels, strict=True):
        if left:
            draw_curves(left[0], arms)
        draw_values(right, arms, result["measured"])
        if len(rows) > 1:
            right.set_title(where, fontsize=9.5, color=INK, loc="right")
    figure.suptitle(f"{result['claim']}: {result['verdict']}", x=0.01, ha="left", color=INK, fontweight="bold")
    said = caption([len(result["seeds"])], "shaded, and as bars" if curves else "as bars")
    where = "" if len(rows) > 1 else f"{result['environment']}, "
    figure.supxlabel(f"{where}{said}", x=0.01, ha="left", color=QUIET, fontsize=8.5)
    return save_figure(figure, path)


def draw_curves(axes: Axes, arms: Mapping[str, tuple[str, Any]]) -> None:
    """Draw the curves of training, with their labels above."""
    for label, (color, arm) in arms.items():
        steps, values = np.array(arm["curve"]["steps"]), np.array(arm["curve"]["return"], float)
        draw_run(axes, steps, values, {"color": color, "label": label}, 0.95, False)
    style(axes, "return in training", "environment steps")
    axes.set_xlim(left=0)
    columns = max(1, min(len(arms), WIDTH // (max(map(len, arms)) + 8)))
    look: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "labelcolor": INK, "columnspacing": 1.4}
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, ncols=columns, **look)


def draw_values(axes: Axes, arms: Mapping[str, tuple[str, Any]], measured: str) -> None:
    """Draw the measured value of each seed, and their mean."""
    for number, (color, arm) in enumerate(arms.values()):
        found = np.array(arm["values"])
        spread = number + np.linspace(-0.14, 0.14, len(found)) if len(found) > 1 else np.array([float(number)])
        axes.plot(spread, found, "o", color=color, alpha=0.45, markersize=4.5, markeredgewidth=0)
        axes.plot([number - 0.26, number + 0.26], [arm["score"]] * 2, color=color, linewidth=2.5)
        if arm["interval"] is not None:
            axes.plot([number] * 2, arm["interval"], color=color, linewidth=1.4)
    style(axes, wrap_label(measured, 40), "")
    letters = min(14, (60 if len(arms) > 4 else 48) // len(arms))
    axes.set_xticks(range(len(arms)), [wrap_label(label, letters) for label in arms], fontsize=8.5)
    axes.set_xlim(-0.5, len(arms) - 0.5)


def wrap_label(label: str, width: int = 14) -> str:
    """Return a label in lines of about `width` letters."""
    lines = [""]
    for word in label.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
