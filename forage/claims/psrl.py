"""Drawing an MDP instead of believing the best: Osband, Russo, Van Roy (2013)."""

from __future__ import annotations

from forage.claims.claim import Arm, Claim, Paper, Scale, area
from forage.claims.ucbvi import EPISODE, river

CLAIM = Claim(
    title="(More) Efficient Reinforcement Learning via Posterior Sampling",
    authors="Osband, Russo, Van Roy",
    year=2013,
    arxiv="1306.0940",
    statement="Posterior sampling loses less while it learns than optimism with the bonuses of its proof.",
    environment=river,
    arms={
        "optimism": Arm("ucbvi", EPISODE),
        "posterior sampling": Arm("psrl", EPISODE),
    },
    treatment="posterior sampling",
    baselines=("optimism",),
    measure=area,
    measured="return in training",
    laptop=Scale(40_000),
    smoke=Scale(400, (1000, 1001)),
    paper=Paper("RiverSwim and random MDPs", 100_000, 50, "a CPU and a day", lacks="UCRL2, its baseline"),
    note="UCBVI in place of UCRL2, whose bound is looser; RiverSwim of 6 states with episodes of 20 steps. Optimism "
    "with the bonuses of its proof hardly learns in so few episodes. Beside UCBVI with 0.005 of them (the claim "
    "ucbvi: the same river, seeds and steps) the difference is +0.0113 [-0.00965, 0.0322], which is undecided. A "
    "run on fresh seeds with that arm is still to come.",
)
