"""Measures and rules of claims about actors with critics."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from forage.evaluation.comparison import welch_difference
from forage.runs.run import Run
from forage.studies.claims.claim import Effect, Rule, area, interval_verdict

ENDS = {"Pendulum-v1": (-1200.0, -150.0), "CartPole-v1": (20.0, 500.0)}


def return_share(run: Run) -> list[float]:
    """Return each seed's mean return over training, on a scale from 0, a random policy's, to 1, a good one's."""
    low, high = ENDS[run.config["spec"]["name"]]
    return [(value - low) / (high - low) for value in area(run)]


def judge_tasks(values: Mapping[str, np.ndarray], rule: Rule) -> list[Effect]:
    """Compare MR.Q with the agent made for each kind of actions."""
    found = []
    for baseline, treatment in (("TD3, Pendulum", "MR.Q, Pendulum"), ("DQN, CartPole", "MR.Q, CartPole")):
        value, low, high = welch_difference(values[treatment], values[baseline], rule.confidence)
        found.append(Effect(baseline, value, low, high, interval_verdict(low, high, rule.margin)))
    return found
