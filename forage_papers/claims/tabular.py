"""Measures of claims about tables."""

from __future__ import annotations

from forage.runs.run import Run


def goals_reached(run: Run) -> list[float]:
    """Return each seed's number of goals reached in training."""
    ended = [(row["return"], row["episodes"]) for row in run.rows]
    return [sum((paid[seed] or 0.0) * count[seed] for paid, count in ended) for seed in range(len(run.config["seeds"]))]
