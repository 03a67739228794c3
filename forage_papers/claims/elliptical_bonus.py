"""An elliptical bonus within each episode, where levels are drawn anew: Henaff and others (2022)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

CLAIM = Claim(
    title="Exploration via Elliptical Episodic Bonuses",
    authors="Henaff, Raileanu, Jiang, Rocktaeschel",
    year=2022,
    arxiv="2210.05805",
    statement="Where levels are drawn anew, a bonus for what is new to the episode finds rewards that are rare.",
    environment="grid:MultiRoom-N4-S5",
    arms={
        "without": Arm("ppo"),
        "with E3B": Arm("ppo", parts=lambda: {"rewards": "e3b"}),
    },
    treatment="with E3B",
    baselines=("without",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(250_000, tuple(range(1000, 1005))),
    smoke=Scale(16_384, (1000, 1001)),
    paper=Paper(
        "grid:MultiRoom-N7-S8", 50_000_000, 5, "a GPU and a day", lacks="MiniHack, whose levels the paper plays"
    ),
    note="MiniGrid's MultiRoom and PPO in place of MiniHack and IMPALA.",
)
