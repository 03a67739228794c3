"""Critics that maximise a value beside the likelihood explore: Liu and others (2023)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"hidden_sizes": (64, 64), "num_envs": 4, "batch_size": 128, "learning_rate": 1e-3, "polyak": 0.01}

CLAIM = Claim(
    title="Maximize to Explore: One Objective Function Fusing Estimation, Planning, and Exploration",
    authors="Liu, Lu, Xiong, Zhong, Hu, Zhang, Zheng, Yang, Wang",
    year=2023,
    arxiv="2305.18258",
    statement="Where reward is sparse, TD3 with optimistic critics has higher returns than TD3.",
    environment="maze:UMaze",
    arms={"TD3": Arm("td3", OPTIONS), "MEX": Arm("mex", OPTIONS | {"optimism": 5e-3})},
    treatment="MEX",
    baselines=("TD3",),
    measure=evaluated,
    measured="return",
    laptop=Scale(24_000, tuple(range(1000, 1008))),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 1_000_000, 5, "a day", lacks="its locomotion tasks with sparse rewards"),
    note="A ball that is pushed through a U, paid at the goal only, in place of running at a given speed.",
)
