"""A claim's picture: how the arms learned, and what was measured of each seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forage.evaluation.plots import INK, PALETTE, QUIET, draw_run, save, style


def draw(path: Path, result: Mapping[str, Any]) -> Path:
    """Learning curves of all arms on the left; on the right a dot for each seed, and the score with its interval."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.9), dpi=150, layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for number, (label, arm) in enumerate(result["arms"].items()):
        color = PALETTE[number % len(PALETTE)]
        steps, values = np.array(arm["curve"]["steps"]), np.array(arm["curve"]["return"], float)
        draw_run(left, steps, values, {"color": color, "label": label}, 0.95, False)
        found = np.array(arm["values"])
        spread = number + np.linspace(-0.14, 0.14, len(found)) if len(found) > 1 else np.array([float(number)])
        right.plot(spread, found, "o", color=color, alpha=0.45, markersize=4.5, markeredgewidth=0)
        right.plot([number - 0.26, number + 0.26], [arm["score"]] * 2, color=color, linewidth=2.5)
        if arm["interval"] is not None:
            right.plot([number] * 2, arm["interval"], color=color, linewidth=1.4)
    style(left, "return in training", "environment steps")
    left.set_xlim(left=0)
    left.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    style(right, wrapped(result["measured"], 40), "")
    right.set_xticks(range(len(result["arms"])), [wrapped(label) for label in result["arms"]], fontsize=8.5)
    right.set_xlim(-0.5, len(result["arms"]) - 0.5)
    seeds = len(result["seeds"])
    figure.suptitle(f"{result['claim']}: {result['verdict']}", x=0.01, ha="left", color=INK, fontweight="bold")
    figure.supxlabel(
        f"{result['environment']}, {seeds} seeds; interquartile mean, 95 % interval",
        x=0.01,
        ha="left",
        color=QUIET,
        fontsize=8,
    )
    return save(figure, path)


def wrapped(label: str, width: int = 14) -> str:
    """Return a label in lines of about so many letters."""
    lines = [""]
    for word in label.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
