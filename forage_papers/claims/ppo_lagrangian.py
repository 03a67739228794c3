"""A multiplier keeps costs below a limit: Ray, Achiam and Amodei (2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from forage.evaluation.statistics import student_interval
from forage.rewards.weighted import Weighted
from forage.runs.run import Run
from forage.studies.claims.claim import Arm, Claim, Effect, Paper, Rule, Scale, judged

GRID, PENDULUM = "grid:LavaToll-S5", "Pendulum-cost"
LIMITS = {GRID: 0.3, PENDULUM: 15.0}
OPTIONS: dict[str, dict[str, Any]] = {
    GRID: {
        "num_envs": 16,
        "rollout_length": 64,
        "minibatches": 8,
        "learning_rate": 1e-3,
        "entropy_coefficient": 0.02,
        "normalise_observation": True,
    },
    PENDULUM: {
        "rollout_length": 256,
        "minibatches": 8,
        "epochs": 10,
        "learning_rate": 1e-3,
        "discount": 0.95,
        "entropy_coefficient": 0.0,
    },
}
LAGRANGIAN: dict[str, dict[str, Any]] = {
    GRID: {"limit": LIMITS[GRID], "multiplier_rate": 0.05, "initial_multiplier": 2.0},
    PENDULUM: {"limit": LIMITS[PENDULUM], "multiplier_rate": 0.02},
}


def reward_alone() -> dict[str, Any]:
    return {"rewards": Weighted(("reward",), (1.0,))}


def final_cost(run: Run) -> list[float]:
    """Return each seed's mean evaluation cost, as a share of the limit."""
    assert run.evaluation is not None
    return [float(cost) / LIMITS[run.config["spec"]["name"]] for cost in run.evaluation["return/cost"]]


def below_or_above(values: Mapping[str, np.ndarray], rule: Rule) -> list[Effect]:
    """Return how far each Lagrangian arm is below the limit, and each plain one above it, with the interval of its
    mean.
    """
    found = []
    for label, costs in values.items():
        room = 1 - np.asarray(costs) if label.startswith("lagrangian") else np.asarray(costs) - 1
        low, high = student_interval(room, rule.confidence)
        found.append(Effect(label, float(room.mean()), low, high, judged(low, high, rule.margin)))
    return found


CLAIM = Claim(
    title="Benchmarking Safe Exploration in Deep Reinforcement Learning",
    authors="Ray, Achiam, Amodei",
    year=2019,
    arxiv="OpenAI, https://cdn.openai.com/safexp-short.pdf",
    statement="PPO-Lagrangian ends below a limit of cost that PPO, which maximises the return alone, exceeds, in a "
    "grid of lava and with a pendulum whose strong torques cost.",
    environment=GRID,
    arms={
        "ppo, grid": Arm("ppo", OPTIONS[GRID], reward_alone),
        "lagrangian, grid": Arm("ppo-lagrangian", OPTIONS[GRID] | LAGRANGIAN[GRID], reward_alone),
        "ppo, pendulum": Arm("ppo", OPTIONS[PENDULUM], reward_alone, PENDULUM),
        "lagrangian, pendulum": Arm("ppo-lagrangian", OPTIONS[PENDULUM] | LAGRANGIAN[PENDULUM], reward_alone, PENDULUM),
    },
    treatment="lagrangian",
    baselines=("ppo, grid",),
    measure=final_cost,
    measured="mean cost of an evaluation episode, as a share of the limit",
    laptop=Scale(80_000, tuple(range(1000, 1005))),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:SafetyPointGoal1-v0", 10_000_000, 3, "many cores and hours", lacks="Safety Gym"),
    note="A strip of lava with a gap, and a pendulum, in place of the paper's robots. Rates, limits and first "
    "multipliers were chosen on seeds 0 to 2.",
    judge=below_or_above,
    judged_by="The effect is how far the mean cost is below the limit with the multiplier, and above it without, as a "
    "share of the limit. The claim holds where the whole 95 % interval of each lies above 0, fails where one is below.",
)
