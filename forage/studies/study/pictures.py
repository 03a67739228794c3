"""The pictures of a study: aggregates with intervals, performance profiles, and curves in each environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from forage.evaluation.curves import align_curves
from forage.evaluation.look import FAINT, INK, PALETTE, QUIET, save_figure, sheet, style
from forage.evaluation.panels import Panel, draw_panels
from forage.evaluation.plots import draw_profiles
from forage.evaluation.profiles import Profile, score_distribution
from forage.runs.run import Run, step_unit
from forage.studies.study.summary import AGGREGATES, StudyResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".pdf", ".svg")


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
    panels = []
    for task in result.design.environments:
        lines, runs = [], []
        for agent in result.design.agents:
            cells = [cell for cell in result.design.cells() if (cell.agent, cell.task) == (agent, task)]
            places = [result.directory / cell.key for cell in cells]
            begun = [Run(place) for place in places if (place / "config.json").exists()]
            runs += begun
            if (found := align_curves([run.curve() for run in begun])) is not None:
                lines.append((agent, *found))
        unit = step_unit(runs) if runs else "environment steps"
        panels.append(Panel(task, lines, xlabel=unit, within=result.ranges[task]))
    return draw_panels(panels)
