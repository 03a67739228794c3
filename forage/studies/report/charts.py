"""The data of a report's charts, as plain numbers that `chart.js` draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from forage.core.plain import dumps
from forage.evaluation.curves import aggregate_curve, smooth_curve
from forage.evaluation.profiles import score_distribution
from forage.evaluation.statistics import Ends
from forage.runs.run import step_unit
from forage.studies.comparison.gathering import ComparedRun

POINTS = 400  # of a line; a screen shows no more, and the file stays small


def learning(runs: Sequence[ComparedRun], name: str, smooth: float = 0, place: str = "learning") -> str:
    """Chart the learning curve of each run, in training and in evaluations, and its final score."""
    series = []
    for arm, one in enumerate(runs):
        labels = seed_labels(one)
        steps, values = one.curve()
        lines = {"training": (steps, smooth_curve(steps, values, smooth) if smooth and len(steps) else values)}
        if one.run.evaluations:
            lines["evaluated"] = one.curve(evaluated=True)
        for kind, (steps, values) in lines.items():
            if np.isfinite(values).any():
                series.append(
                    summarise_line(one.label, arm, kind, *thin_curve(steps, values), labels, one.return_bounds)
                )
        if one.final is not None:
            series.append(final(one, arm, labels))
    counted = step_unit(one.run for one in runs)
    return chart(place, series, [one.label for one in runs], counted, f"return, {name}", 0)


def metric_chart(runs: Sequence[ComparedRun], metric: str, smooth: float = 0, place: str = "") -> str:
    """Chart one metric of training, such as a loss, of each run that has it; empty without one."""
    series = []
    for arm, one in enumerate(runs):
        steps, values = one.metric(metric)
        if len(steps) and np.isfinite(values).any():
            values = smooth_curve(steps, values, smooth) if smooth else values
            kept = thin_curve(steps, values)
            series.append(summarise_line(one.label, arm, "training", *kept, seed_labels(one), None))
    counted = step_unit(one.run for one in runs)
    where = place or f"metric-{metric.replace('/', '-')}"
    labels = [one.label for one in runs]
    return chart(where, series, labels, counted, metric.replace("_", " "), 0) if series else ""


def seed_labels(one: ComparedRun) -> list[str]:
    """Return the name of each seed's line."""
    return [f"seed {seed}" for seed in one.seeds]


def summarise_line(
    name: str,
    arm: int,
    kind: str,
    steps: np.ndarray,
    values: Float[np.ndarray, "seeds points"],
    labels: list[str],
    within: Ends | None,
) -> dict[str, Any]:
    """Summarise a curve over its seeds, as `aggregate_curve` does."""
    _, middle, low, high = aggregate_curve(steps, values, within=within)
    seeds = [{"name": label, "y": plain_values(y)} for label, y in zip(labels, values, strict=True)]
    bounds = {"value": plain_values(middle), "low": plain_values(low), "high": plain_values(high)}
    return {"name": name, "arm": arm, "kind": kind, "x": plain_values(steps), **bounds, "seeds": seeds}


def final(one: ComparedRun, arm: int, labels: list[str]) -> dict[str, Any]:
    """Return the score of a run as a curve of one point."""
    assert one.scores is not None and one.final is not None
    steps, total = one.final
    seeds = [{"name": label, "y": plain_values([y])} for label, y in zip(labels, one.scores, strict=True)]
    bounds = {"value": [total.value], "low": [total.low], "high": [total.high]}
    plained = {name: plain_values(value) for name, value in bounds.items()}
    return {"name": one.label, "arm": arm, "kind": "final evaluation", "x": [steps], **plained, "seeds": seeds}


def profiles(runs: Sequence[ComparedRun], place: str = "profiles") -> str:
    """Chart the share of seeds above each return; empty if all scores are equal."""
    scored = [(arm, one) for arm, one in enumerate(runs) if one.scores is not None]
    together = np.concatenate([np.zeros(0), *(one.scores for _, one in scored if one.scores is not None)])
    if not len(together) or together.min() == together.max():
        return ""
    margin = 0.05 * (together.max() - together.min())
    levels = np.linspace(together.min() - margin, together.max() + margin, 200)
    series = []
    for arm, one in scored:
        assert one.scores is not None
        found = score_distribution(one.scores, levels)
        bounds = {"value": plain_values(found.share), "low": plain_values(found.low), "high": plain_values(found.high)}
        series.append(
            {"name": one.label, "arm": arm, "kind": "share", "x": plain_values(levels), **bounds, "seeds": []}
        )
    return chart(place, series, [one.label for one in runs], "return", "share of seeds above it", float(levels[0]))


def chart(name: str, series: list[dict[str, Any]], arms: list[str], x: str, y: str, start: float) -> str:
    """Write a place in the page for one chart, with its numbers."""
    data = {"arms": arms, "x": x, "y": y, "from": start, "series": series}
    # Within a script element only its end has to be kept from the parser.
    text = dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<div class="chart" id="{name}"><script type="application/json">{text}</script></div>'


def thin_curve(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keep at most `POINTS` points, the last one among them."""
    every = -(-len(steps) // POINTS)
    kept = np.arange(len(steps) - 1, -1, -every)[::-1]
    return steps[kept], values[:, kept]


def plain_values(values: Any) -> list[float | None]:
    """Return numbers for JSON, to six digits, with null for those that are not finite."""
    numbers = np.asarray([np.nan if value is None else value for value in values], float)
    return [
        float(f"{value:.6g}") if abs(value) < 1e5 else round(value) if np.isfinite(value) else None for value in numbers
    ]
