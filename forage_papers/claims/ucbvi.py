"""Optimism where little was counted: Azar, Osband, Munos (2017)."""

from __future__ import annotations

from forage.environments.tabular.makers import river_swim
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

EPISODE = {"rollout_length": 20}


def river():
    """Six states against the current, 20 steps an episode."""
    return river_swim(6, max_steps=20)


CLAIM = Claim(
    title="Minimax Regret Bounds for Reinforcement Learning",
    authors="Azar, Osband, Munos",
    year=2017,
    arxiv="1703.05449",
    statement="A bonus for what was seldom counted makes value iteration find what it misses without.",
    environment=river,
    arms={
        "no bonus": Arm("ucbvi", EPISODE | {"bonus_scale": 0.0}),
        "bonus": Arm("ucbvi", EPISODE | {"bonus_scale": 0.005}),
    },
    treatment="bonus",
    baselines=("no bonus",),
    measure=area,
    measured="return in training",
    laptop=Scale(40_000),
    smoke=Scale(400, (1000, 1001)),
    paper=Paper("any MDP given by tables", 10_000_000, 10, "a CPU and hours", lacks="an experiment: it is a proof"),
    note="Bonuses are 0.005 times those of the proof, with which no plan changes in so few episodes; docs/regret.md.",
)
