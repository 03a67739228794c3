"""The pictures of a study: aggregates with intervals, performance profiles, and curves in each environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from forage.evaluation.curves import align_curves
from forage.evaluation.look import DASHES, FAINT, INK, PALETTE, QUIET, save_figure, sheet, style
from forage.evaluation.plots import BANDED, draw_profiles, draw_run
from forage.evaluation.profiles import Profile, score_distribution
from forage.evaluation.statistics import name_of_mean
from forage.runs.run import Run, step_unit
from forage.studies.study.summary import AGGREGATES, StudyResult

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = (".pdf", ".svg")
ACROSS = 3  # panels in a row


def draw_study(result: StudyResult, kinds: Sequence[str] = KINDS) -> list[Path]:
    """Draw all pictures of a study in each of these kinds. Return their paths."""
    figures = {}
    if result.matrices():
        figures["aggregates"] = draw_aggregates(result)
        figures["profiles"] = draw_profiles(profile_lines(result), "normalised score")
    if any((result.directory / cell.key / "metrics.jsonl").exists() for cell in result.design.cells()):
        figures["curves"] = draw_curves(result)
    return [
        save_figure(figure, result.directory / f"{name}{kind}") for name, figure in figures.items() for kind in kinds
    ]


def agent_color(result: StudyResult, agent: str) -> str:
    """Return the colour of an agent, the same in all pictures."""
    return PALETTE[list(result.design.agents).index(agent) % len(PALETTE)]


def draw_aggregates(result: StudyResult) -> Figure:
    """Draw a panel for each statistic with a row for each agent, its interval as a bar."""
    found = result.aggregates()
    figure = sheet(2.3 * len(AGGREGATES) + 0.8, 1.2 + 0.34 * len(found), dpi=200)
    panels = np.atleast_1d(figure.subplots(1, len(AGGREGATES), sharey=True))
    for axes, name in zip(panels, AGGREGATES, strict=True):
        for row, (agent, scores) in enumerate(found.items()):
            one, color = scores[name], agent_color(result, agent)
            if one.low is not None and one.high is not None:
                axes.barh(row, one.high - one.low, 0.6, left=one.low, color=color, alpha=0.25, linewidth=0)
            axes.plot([one.value] * 2, [row - 0.3, row + 0.3], color=color, linewidth=2)
        style(axes, "", "")
        axes.grid(visible=False)
        axes.grid(axis="x", color=FAINT, linewidth=0.8)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.use_sticky_edges = False
        axes.margins(x=0.08)
        axes.set_title(name, loc="left", color=INK, fontsize=9.5)
        axes.set_yticks(range(len(found)), list(found), color=INK)
        axes.set_ylim(len(found) - 0.5, -0.5)
    figure.supxlabel("normalised score; 95 % intervals shaded", x=0.01, ha="left", color=QUIET, fontsize=8.5)
    return figure


def profile_lines(result: StudyResult) -> list[tuple[str, Profile]]:
    """Return the performance profile of each complete agent, with its label."""
    found = result.matrices()
    every = np.concatenate([matrix.ravel() for matrix in found.values()])
    low, high = min(0.0, float(every.min())), max(1.0, float(every.max()))
    levels = np.linspace(low, high, 201)
    return [(agent, score_distribution(matrix, levels)) for agent, matrix in found.items()]


def draw_curves(result: StudyResult) -> Figure:
    """Draw the learning curves of all agents, a panel for each environment."""
    tasks = list(result.design.environments)
    across = min(ACROSS, len(tasks))
    down = -(-len(tasks) // across)
    figure = sheet(3.4 * across, 2.6 * down + 0.5, dpi=200)
    panels: np.ndarray = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
    lines: dict[str, Artist] = {}
    for axes, task in zip(panels, tasks, strict=False):
        unit = draw_task(axes, result, task, lines)
        style(axes, "return", unit)
        axes.set_title(task, loc="left", color=INK, fontsize=9.5)
        axes.set_xlim(left=0)
    for axes in panels[len(tasks) :]:
        axes.set_visible(False)
    seeds = len(result.design.seeds)
    shaded = ", 95 % intervals shaded" if seeds >= BANDED else ", no intervals of so few"
    said = f"{name_of_mean(seeds)} of {seeds} seed{'s' * (seeds > 1)}{shaded if seeds > 1 else ''}"
    figure.supxlabel(said, x=0.01, ha="left", color=QUIET, fontsize=8.5)
    look = {"frameon": False, "fontsize": 8.5, "labelcolor": INK, "ncols": min(4, max(1, len(lines)))}
    if lines:
        figure.legend(list(lines.values()), list(lines), loc="outside upper left", **look)
    return figure


def draw_task(axes: Axes, result: StudyResult, task: str, lines: dict[str, Artist]) -> str:
    """Draw the curves of one environment; add the line of each agent to `lines`. Return the unit of its steps."""
    runs_of_task = []
    for number, agent in enumerate(result.design.agents):
        cells = [cell for cell in result.design.cells() if (cell.agent, cell.task) == (agent, task)]
        places = [result.directory / cell.key for cell in cells]
        runs = [Run(place) for place in places if (place / "config.json").exists()]
        runs_of_task += runs
        found = align_curves([run.curve() for run in runs])
        if found is None:
            continue
        look = {"color": agent_color(result, agent), "linestyle": DASHES[number // len(PALETTE) % len(DASHES)]}
        before = len(axes.lines)
        draw_run(axes, *found, look, 0.95, show_seeds=False)
        lines.setdefault(agent, axes.lines[before])
    return step_unit(runs_of_task) if runs_of_task else "environment steps"
