"""Sentences about the course of a training, each by a stated rule over the points of its curve.

A metric of a point is the mean over its updates; a rule reads the mean over the run's seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from forage.evaluation.curves import fill_forward
from forage.evaluation.look import count_label

FALLEN = 0.01  # share of its first value below which entropy has fallen to 0
LAST = 0.1  # share of the run, at its end, whose points a rule about the end averages
POOR, GOOD = 0.2, 0.9  # explained variance that is worth a sentence
BOUND = 0.01  # share of actions at a bound that is worth a sentence
KL = 0.05  # mean approximate KL of an update that is worth a sentence; PPO's authors stop near 0.015


def remarks(rows: Sequence[Mapping[str, Any]], discrete: bool) -> list[str]:
    """Return the sentences that apply to the points of a curve. `discrete`: the actions are numbered."""
    found = [
        entropy_remark(*metric_curve(rows, "entropy")) if discrete else "",
        value_remark(*metric_curve(rows, "explained_variance")),
        bounds_remark(*metric_curve(rows, "actions_at_bounds")),
        kl_remark(*metric_curve(rows, "approximate_kl")),
        silence_remark(rows),
    ]
    return [sentence for sentence in found if sentence]


def metric_curve(
    rows: Sequence[Mapping[str, Any]], name: str
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, "members points"]]:
    """Return the steps of the points that have a metric, and each member's value there."""
    have = [row for row in rows if isinstance(row.get(name), list)]
    values = [[np.nan if value is None else value for value in row[name]] for row in have]
    members = len(values[0]) if values else 0
    return np.array([row["steps"] for row in have], float), np.array(values, float).reshape(len(have), members).T


def metric_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the metrics that a curve has a value of, the important ones first."""
    skipped = {"steps", "return", "length", "episodes", "updates"}
    names = dict.fromkeys(name for row in rows for name, value in row.items() if isinstance(value, list))
    measured = [n for n in names if n not in skipped and any(v is not None for row in rows for v in row.get(n) or ())]

    def rank(name: str) -> tuple[int, str]:
        order = ("loss", "entropy", "kl", "explained_variance", "error", "value", "q")
        return next((place for place, part in enumerate(order) if part in name), len(order)), name

    return sorted(measured, key=rank)


def entropy_remark(steps: np.ndarray, values: np.ndarray) -> str:
    """Return whether the entropy of a policy over numbered actions fell to 0, and when.

    Rule: from a step on until the end, the mean over seeds is at most 1 % of its first value, which is above 0. The
    end alone, the last point, is not enough.
    """
    mean = mean_over_members(values)
    known = np.flatnonzero(np.isfinite(mean))
    if len(known) < 3 or mean[known[0]] <= 0:
        return ""
    low = mean[known] <= FALLEN * mean[known[0]]
    high = np.flatnonzero(~low)
    first = int(high[-1]) + 1
    if first > len(known) - 2:
        return ""
    at = count_label(float(f"{steps[known[first]]:.3g}"))
    return f"Entropy fell to 0 after {at} steps: it stays below 1 % of its first value, so the policy explores no more."


def value_remark(steps: np.ndarray, values: np.ndarray) -> str:
    """Return the share of the variance of returns that the value explains, if it is small or large.

    Rule: the mean explained variance of the last tenth of the run, over seeds, is below 20 % or at least 90 %.
    """
    share = mean_at_end(steps, values)
    if share is None or POOR <= share < GOOD:
        return ""
    if share < 0:
        return "The value explains none of the variance of returns: it predicts them worse than their mean does."
    return f"The value explains {share:.0%} of the variance of returns.".replace("%", " %")


def bounds_remark(steps: np.ndarray, values: np.ndarray) -> str:
    """Return the share of actions at their bounds.

    Rule: the mean over the last tenth of the run, over seeds, is at least 1 %.
    """
    share = mean_at_end(steps, values)
    return "" if share is None or share < BOUND else f"{share:.0%} of actions are at their bounds.".replace("%", " %")


def kl_remark(steps: np.ndarray, values: np.ndarray) -> str:
    """Return whether updates change the policy much.

    Rule: the mean approximate KL divergence of the last tenth of the run, over seeds, is at least 0.05.
    """
    found = mean_at_end(steps, values)
    if found is None or found < KL:
        return ""
    return f"Updates change the policy much: their mean KL divergence is {found:.2g}, where 0.01 to 0.02 is usual."


def silence_remark(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the step since which no episode has ended.

    Rule: the points without an episode of any seed at the end make at least a tenth of the run.
    """
    ended = [row["steps"] for row in rows if any(row.get("episodes") or ())]
    if not rows or not any("episodes" in row for row in rows):
        return ""
    last, end = (ended[-1] if ended else 0), rows[-1]["steps"]
    if end - last < LAST * end:
        return ""
    return "No episode has ended." if not ended else f"No episode has ended since step {last:,}."


def mean_over_members(values: np.ndarray) -> np.ndarray:
    """Return the mean of the members at each point; each holds its last value where it has none."""
    if not values.size:
        return np.zeros(0)
    return fill_forward(values).mean(axis=0)


def mean_at_end(steps: np.ndarray, values: np.ndarray) -> float | None:
    """Return the mean of the points in the last tenth of the run; `None` without any."""
    if not values.size or not len(steps):
        return None
    late = values[:, steps > (1 - LAST) * steps[-1]]
    late = late[np.isfinite(late)]
    return float(late.mean()) if len(late) else None
