"""Measures of claims about language."""

from __future__ import annotations

from forage.runs.run import Run


def share_solved(run: Run) -> list[float]:
    """Return the share of right answers in the evaluation after training."""
    assert run.evaluation is not None
    return [float(value) for value in run.evaluation["truth"]]
