"""Measures, rules and environments of claims about policy gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Array, Key, PyTree

from forage.core.types import Step
from forage.environments import make
from forage.environments.wrappers import TimeLimit
from forage.environments.wrappers.base import Wrapper
from forage.evaluation.statistics import student_interval
from forage.runs.run import Run
from forage.studies import robustness
from forage.studies.claims.claim import Effect, Rule, interval_verdict

LENGTHS = [0.1, 1.5, 2.0, 3.0]


def return_outside(run: Run) -> list[float]:
    """Return each seed's mean return on poles shorter and longer than any that was trained on."""
    result = robustness.evaluate_under(run.directory, {"length": LENGTHS}, episodes=20)
    return [sum(point.returns[i] for point in result.points) / len(LENGTHS) for i in range(len(run.config["seeds"]))]


FEW = (3, 5)
DRAWS, RESAMPLES = 400, 400


def judge_order(values: Mapping[str, np.ndarray], rule: Rule) -> list[Effect]:
    """Return the share of comparisons of a few seeds that order the two arms otherwise than all seeds do.

    Its interval comes from resampling the seeds: it says how sure many seeds are of that share.
    """
    first, second = (np.asarray(v) for v in values.values())
    random = np.random.default_rng(0)

    def share(a: np.ndarray, b: np.ndarray, few: int) -> float:
        few = min(few, len(a))
        means = [v[random.integers(len(v), size=(DRAWS, few))].mean(1) for v in (a, b)]
        gap = means[0] - means[1]
        return float(np.mean(np.sign(gap) == -np.sign(a.mean() - b.mean())) + np.mean(gap == 0) / 2)

    found = []
    for few in FEW:
        shares = [
            share(random.choice(first, len(first)), random.choice(second, len(second)), few) for _ in range(RESAMPLES)
        ]
        low, high = (float(q) for q in np.quantile(shares, [(1 - rule.confidence) / 2, (1 + rule.confidence) / 2]))
        found.append(
            Effect(f"{few} seeds", share(first, second, few), low, high, interval_verdict(low, high, rule.margin))
        )
    return found


GRID, PENDULUM = "grid:LavaToll-S5", "Pendulum-cost"
LIMITS = {GRID: 0.3, PENDULUM: 15.0}


def cost_share(run: Run) -> list[float]:
    """Return each seed's mean evaluation cost, as a share of the limit."""
    assert run.evaluation is not None
    return [float(cost) / LIMITS[run.config["spec"]["name"]] for cost in run.evaluation["return/cost"]]


def judge_costs(values: Mapping[str, np.ndarray], rule: Rule) -> list[Effect]:
    """Return the mean distance of each Lagrangian arm below the limit, and of each plain one above it."""
    found = []
    for label, costs in values.items():
        room = 1 - np.asarray(costs) if label.startswith("lagrangian") else np.asarray(costs) - 1
        low, high = student_interval(room, rule.confidence)
        found.append(Effect(label, float(room.mean()), low, high, interval_verdict(low, high, rule.margin)))
    return found


class CutAsTerminated(Wrapper):
    """A wrapper with the mistake: episodes that are cut count as terminated."""

    def step(self, state: Any, action: PyTree[Array], key: Key[Array, ""]) -> tuple[Any, Step]:
        state, step = self.environment.step(state, action, key)
        return state, step._replace(terminated=step.terminated | step.truncated, truncated=step.truncated & False)


def short_pendulum() -> TimeLimit:
    """Return the pendulum with episodes of 20 steps."""
    return TimeLimit(make("Pendulum-v1"), 20)  # pyrefly: ignore[bad-argument-type]


def short_pendulum_of_ends() -> CutAsTerminated:
    """Return the same with the mistake."""
    return CutAsTerminated(short_pendulum())


def full_return(run: Run) -> list[float]:
    """Return each seed's mean return in episodes of the usual 200 steps."""
    was: Any = {"taken-for-an-end": short_pendulum_of_ends, "value-goes-on": short_pendulum}[run.directory.name]
    whole: Any = make("Pendulum-v1")
    result = robustness.evaluate_under(run.directory, instead={"in full": whole}, environment=was(), episodes=32)
    return result.points[-1].returns
