"""Memory by recurrence is a strong baseline where not all is seen: Ni, Eysenbach and Salakhutdinov (2021)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="Recurrent Model-Free RL Can Be a Strong Baseline for Many POMDPs",
    authors="Ni, Eysenbach, Salakhutdinov",
    year=2021,
    arxiv="2110.05038",
    statement="Where velocities are hidden a recurrent agent learns what one without memory cannot.",
    environment="CartPole-masked",
    arms={
        "no memory": Arm("ppo", {"memory_size": 0}),
        "GRU": Arm("ppo", {"memory_size": 64}),
    },
    treatment="GRU",
    baselines=("no memory",),
    measure=evaluated,
    measured="return",
    laptop=Scale(200_000, tuple(range(1000, 1005))),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper(
        "gymnasium:HalfCheetah-v5", 1_500_000, 3, "a GPU and hours", lacks="PyBullet tasks with velocities hidden"
    ),
    note="PPO with a GRU on CartPole without velocities, in place of off-policy agents on masked PyBullet tasks.",
)
