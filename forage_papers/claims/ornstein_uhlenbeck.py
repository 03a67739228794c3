"""Noise that is correlated in time suits things with inertia: Lillicrap and others (2015)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area
from forage_papers.behaviours.pink import Pink

OPTIONS = {"num_envs": 4, "rollout_length": 4, "updates_per_rollout": 4, "exploration_noise": 0.38}
OPTIONS |= {"hidden_sizes": (32, 32), "batch_size": 64, "learning_rate": 1e-3}

CLAIM = Claim(
    title="Continuous control with deep reinforcement learning",
    authors="Lillicrap, Hunt, Pritzel, Heess, Erez, Tassa, Silver, Wierstra",
    year=2015,
    arxiv="1509.02971",
    statement="Where there is inertia, noise that is correlated in time explores more efficiently than white noise.",
    environment="MountainCarContinuous-v0",
    arms={
        "white": Arm("td3", OPTIONS, lambda: {"behaviour": Pink(exponent=0.0)}),
        "Ornstein-Uhlenbeck": Arm("td3", OPTIONS, lambda: {"behaviour": "ornstein-uhlenbeck"}),
    },
    treatment="Ornstein-Uhlenbeck",
    baselines=("white",),
    measure=area,
    measured="mean return during training",
    laptop=Scale(20_000),
    smoke=Scale(6000, (1000, 1001)),  # so that episodes end
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 5, "hours on many cores"),
    note="TD3 with noise of the paper's size, 0.38, in place of DDPG, which says so without an experiment.",
)
