"""Units that say nothing begin anew: Sokar, Agarwal, Castro and Evci (2023)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Also, Arm, Claim, Paper, Scale, area, late

OFTEN: dict[str, Any] = {"n_step": 1, "dueling": False, "updates_per_rollout": 4, "count_dormant": True}

CLAIM = Claim(
    title="The Dormant Neuron Phenomenon in Deep Reinforcement Learning",
    authors="Sokar, Agarwal, Castro, Evci",
    year=2023,
    arxiv="2302.12902",
    statement="With many updates a step, DQN whose dormant units begin anew has higher returns in training than "
    "without.",
    environment="CartPole-v1",
    arms={"none begin anew": Arm("dqn", OFTEN), "ReDo": Arm("dqn", OFTEN | {"recycle_interval": 1000})},
    treatment="ReDo",
    baselines=("none begin anew",),
    measure=area,
    measured="mean return in training",
    also=(Also(late("dormant"), "share of dormant units at the end"),),
    laptop=Scale(50_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:ALE/DemonAttack-v5", 10_000_000, 5, "a GPU and days"),
    note="CartPole in place of Atari; one update a step in place of a quarter.",
)
