"""Pink noise explores better than white: Eberhard, Hollenstein, Pinneri and Martius (2023)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area
from forage_papers.behaviours.pink import Pink

OPTIONS = {"num_envs": 4, "rollout_length": 4, "updates_per_rollout": 4}
OPTIONS |= {"hidden_sizes": (32, 32), "batch_size": 64, "learning_rate": 1e-3}

CLAIM = Claim(
    title="Pink Noise Is All You Need: Colored Noise Exploration in Deep Reinforcement Learning",
    authors="Eberhard, Hollenstein, Pinneri, Martius",
    year=2023,
    arxiv="ICLR",
    statement="An agent that explores with pink noise learns better than one that explores with white noise.",
    environment="MountainCarContinuous-v0",
    arms={
        "white": Arm("sac", OPTIONS, lambda: {"behaviour": Pink(exponent=0.0)}),
        "pink": Arm("sac", OPTIONS, lambda: {"behaviour": Pink()}),
    },
    treatment="pink",
    baselines=("white",),
    measure=area,
    measured="mean return during training",
    laptop=Scale(20_000),
    smoke=Scale(6000, (1000, 1001)),  # so that episodes end
    paper=Paper("gymnasium:MountainCarContinuous-v0", 1_000_000, 20, "hours on many cores"),
    note="One of the paper's environments, small networks and few steps; its other agent, MPO, is not here.",
)
