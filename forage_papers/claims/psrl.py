"""Drawing an MDP instead of believing the best: Osband, Russo, Van Roy (2013)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, area
from forage_papers.claims.ucbvi import EPISODE, river

CLAIM = Claim(
    title="(More) Efficient Reinforcement Learning via Posterior Sampling",
    authors="Osband, Russo, Van Roy",
    year=2013,
    arxiv="1306.0940",
    statement="Posterior sampling loses less while it learns than optimism, be its bonuses proved or tuned.",
    environment=river,
    arms={
        "optimism": Arm("ucbvi", EPISODE),
        "tuned optimism": Arm("ucbvi", EPISODE | {"bonus_scale": 0.005}),
        "posterior sampling": Arm("psrl", EPISODE),
    },
    treatment="posterior sampling",
    baselines=("optimism", "tuned optimism"),
    measure=area,
    measured="return in training",
    laptop=Scale(40_000, FRESH),
    smoke=Scale(400, (1000, 1001)),
    paper=Paper("RiverSwim and random MDPs", 100_000, 50, "a CPU and a day", lacks="UCRL2, its baseline"),
    note="UCBVI in place of UCRL2, whose bound is looser; RiverSwim of 6 states with episodes of 20 steps. With the "
    "bonuses of its proof UCBVI does not learn in so few episodes; tuned ones are 0.005 times those.",
)
