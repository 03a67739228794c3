"""Information gain beside entropy finds what entropy alone does not: Sukhija and others (2024)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"hidden_sizes": (64, 64), "num_envs": 4, "updates_per_rollout": 2, "batch_size": 128, "learning_rate": 1e-3}

CLAIM = Claim(
    title="MaxInfoRL: Boosting exploration in reinforcement learning through information gain maximization",
    authors="Sukhija, Coros, Krause, Abbeel, Sferrazza",
    year=2024,
    arxiv="2412.12098",
    statement="Soft actor-critic that is also paid for information gain solves a task where soft actor-critic stays at "
    "doing nothing.",
    environment="MountainCarContinuous-v0",
    arms={"SAC": Arm("sac", OPTIONS), "MaxInfoSAC": Arm("maxinfo-sac", OPTIONS)},
    treatment="MaxInfoSAC",
    baselines=("SAC",),
    measure=evaluated,
    measured="return",
    laptop=Scale(16_000, tuple(range(1000, 1005))),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("dm_control:cartpole-swingup_sparse", 500_000, 5, "a GPU and a day", {"num_envs": 1}),
    note="A single task, paid at its goal only and charged for force, in place of the DeepMind control suite's.",
)
