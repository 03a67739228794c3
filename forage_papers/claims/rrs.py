"""Critics of shifted rewards, followed by turns, explore: Sun and others (2022)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

OPTIONS = {"hidden_sizes": (64, 64), "num_envs": 4, "updates_per_rollout": 2, "batch_size": 128, "learning_rate": 1e-3}

CLAIM = Claim(
    title="Exploit Reward Shifting in Value-Based Deep-RL: Optimistic Curiosity-Based Exploration and Conservative "
    "Exploitation via Linear Reward Shaping",
    authors="Sun, Han, Yang, Ma, Guo, Zhou",
    year=2022,
    arxiv="2209.07288",
    statement="TD3 that follows critics of rewards shifted by -0.5, 0 and 0.5 by turns learns in fewer steps than TD3.",
    environment="Pendulum-v1",
    arms={"TD3": Arm("td3", OPTIONS), "RRS": Arm("rrs", OPTIONS)},
    treatment="RRS",
    baselines=("TD3",),
    measure=area,
    measured="mean return during training",
    laptop=Scale(12_000, tuple(range(1000, 1008))),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 1_000_000, 5, "a day", {"num_envs": 1}),
    note="A pendulum in place of locomotion, with small networks. In MountainCarContinuous, where it was tried first, "
    "neither found the goal.",
)
