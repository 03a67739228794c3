"""The comparison of runs: one picture of their curves, and sentences about them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forage.config.ranges import check_call
from forage.core.errors import ForageError, nearest
from forage.evaluation.curves import smooth_curve
from forage.evaluation.look import save_figure
from forage.evaluation.panels import ACROSS, Panel, draw_panels
from forage.evaluation.plots import check_suffix, curve
from forage.runs.run import Run, step_unit
from forage.studies.comparison.curve_files import CurveFile, check_curve_suffix, write_curves
from forage.studies.comparison.gathering import ComparedRun, environment_of, gather, group_runs
from forage.studies.comparison.remarks import metric_names, remarks
from forage.studies.comparison.verdicts import common_end, cut_curve, is_beyond, verdicts


def compare(
    directories: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] = "comparison.png",
    *,
    labels: Sequence[str] = (),
    title: str = "",
    size: tuple[float, float] | None = None,
    smooth: float = 0,
    metrics: Sequence[str] = ("return",),
    curves: str | os.PathLike[str] | None = None,
    looks: int = 1,
) -> list[str]:
    """Draw the curves of runs, or of their directories, into `output`. Return lines that compare them.

    Runs of several environments get a panel each, the settings of a sweep a line each. A `.csv` among them holds
    curves of another program (step, return, seed). Runs of different lengths are compared over their common steps.
    `labels`: one for each of `directories`. `size`: of the picture, in inches. `smooth`: the steps over which each
    point is averaged. `metrics`: the panels of the picture, such as `return`, `entropy` and `value_loss`. `curves`:
    also write all points by seed into this `.csv` or `.parquet`. `looks`: the most numbers of seeds at which these are
    compared, this one included; for more than one the interval is wider, so that all of them err as often as one.
    """
    if looks < 1:
        raise ForageError(f"Runs are compared at one look or more, not at {looks}.")
    check_call(compare, {"title": title, "smooth": smooth, "metrics": metrics, "labels": labels, "size": size})
    if curves is not None:
        check_curve_suffix(curves)
    check_suffix(os.fspath(output))
    runs = gather(directories, labels)
    check_picture(size, smooth, metrics, runs)
    groups = group_runs(runs)
    if len(groups) == 1 and list(metrics) == ["return"]:
        path = draw_one(runs, os.fspath(output), title, size, smooth)
    else:
        panels = [make_panel(group, name, metric, smooth) for metric in metrics for name, group in groups.items()]
        across = len(groups) if 1 < len(groups) <= ACROSS and len(metrics) > 1 else ACROSS
        path = save_figure(draw_panels(panels, title, size, across), Path(output))
    lines = [*verdicts(runs, looks), *(f"{one.name}: {said}" for one in runs for said in remarks_of(one))]
    if curves is not None:
        kept = {id(one.run): (one.label, environment_of(one.run) or one.group, one.run) for one in runs}
        lines.append(str(write_curves(curves, list(kept.values()))))
    return [*lines, str(path)]


def check_picture(
    size: tuple[float, float] | None, smooth: float, metrics: Sequence[str], runs: Sequence[ComparedRun]
) -> None:
    """Raise `ForageError` for a picture that cannot be drawn."""
    if size is not None and not (len(size) == 2 and all(1 <= side <= 100 for side in size)):
        raise ForageError("The size of a picture is its width and height, each from 1 to 100 inches, such as 7.2x4.2.")
    check_smoothing(smooth)
    known = ["return", *dict.fromkeys(name for one in runs for name in metric_names(one.run.rows))]
    for name in metrics:
        if name not in known:
            raise ForageError(f"None of these runs has a metric {name!r}{nearest(name, known)}")
    if not metrics:
        raise ForageError("A picture shows one metric or more, such as return,entropy.")


def check_smoothing(smooth: float) -> None:
    """Raise `ForageError` for a number of steps over which no curve can be averaged."""
    if not 0 <= smooth < float("inf"):
        raise ForageError(f"Smoothing is over 0 steps or more, not {smooth:g}.")


def draw_one(
    runs: Sequence[ComparedRun], output: str, title: str, size: tuple[float, float] | None, smooth: float
) -> Path:
    """Draw the returns of runs in one environment."""
    end = common_end(runs)
    lines = [(one.label, *smooth_points(cut_curve(*one.curve(), end), smooth)) for one in runs]
    finals = [(at, *one.final) for at, one in enumerate(runs) if one.final is not None and not is_beyond(one, end)]
    more: dict[str, Any] = {} if size is None else {"size": size}
    return curve(
        output, lines, title or environment_title(runs), xlabel=step_unit(one.run for one in runs), finals=finals,
        within=runs[0].return_bounds, **more,
    )  # fmt: skip


def make_panel(runs: Sequence[ComparedRun], environment: str, metric: str, smooth: float) -> Panel:
    """Return the panel of one metric in one environment."""
    end = common_end(runs)
    drawn = [(one, *(one.curve() if metric == "return" else one.metric(metric))) for one in runs]
    found = [(one, *smooth_points(cut_curve(steps, values, end), smooth)) for one, steps, values in drawn if len(steps)]
    lines = [(one.label, steps, values) for one, steps, values in found]
    finals = [
        (at, *one.final)
        for at, (one, _, _) in enumerate(found)
        if metric == "return" and one.final is not None and not is_beyond(one, end)
    ]
    unit = step_unit(one.run for one in runs)
    bounds = runs[0].return_bounds if metric == "return" else None
    return Panel(environment or environment_title(runs), lines, metric.replace("_", " "), unit, finals, bounds)


def smooth_points(found: tuple[np.ndarray, np.ndarray], window: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a curve whose points are means over the steps before them."""
    steps, values = found
    return (steps, smooth_curve(steps, values, window)) if window and len(steps) else (steps, values)


def environment_title(runs: Sequence[ComparedRun]) -> str:
    """Return the name of the runs' environment."""
    return next((name for one in runs if (name := one.run.config["spec"]["name"])), runs[0].label)


def remarks_of(one: ComparedRun) -> list[str]:
    """Return sentences about the course of a training; none for curves of other programs and sweeps."""
    if isinstance(one.run, CurveFile) or one.members:
        return []
    return remarks(one.run.rows, has_numbered_actions(one.run))


def has_numbered_actions(run: Run) -> bool:
    """Return whether the actions of a run are numbers out of a few, or several such."""
    return run.config["spec"]["action_space"].get("kind") in ("discrete", "multi-discrete", "multi-binary", "tokens")
