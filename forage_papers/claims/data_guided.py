"""Demonstrations say where to explore: Dong and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.memory.mixed import Mixed
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area
from forage.studies.claims.played import played, push
from forage_papers.behaviours.data_guided import DataGuided

OPTIONS = {"hidden_sizes": (64, 64), "num_envs": 4, "updates_per_rollout": 2, "batch_size": 128, "learning_rate": 1e-3}
OPTIONS |= {"critic_norm": "layer"}


def replayed() -> dict[str, Any]:
    return {"memory": Mixed(played("MountainCarContinuous-v0", push, (0.3,) * 5))}


def guided() -> dict[str, Any]:
    parts = replayed()
    return parts | {"behaviour": DataGuided(parts["memory"].data[0], hidden_sizes=(64,))}


CLAIM = Claim(
    title="Reinforcement Learning via Implicit Imitation Guidance",
    authors="Dong, Lessing, Chen, Finn",
    year=2025,
    arxiv="2506.07505",
    statement="Exploration noise learned from demonstrations learns a sparse task sooner than replaying them alone.",
    environment="MountainCarContinuous-v0",
    arms={"replayed": Arm("sac", OPTIONS, replayed), "data-guided": Arm("sac", OPTIONS, guided)},
    treatment="data-guided",
    baselines=("replayed",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(12_000, tuple(range(1000, 1005))),
    smoke=Scale(4400, (1000, 1001)),
    paper=Paper("robomimic:Square", 1_000_000, 5, "a GPU and a day", lacks="the simulator and its demonstrations"),
    note="Five episodes of a rule that pumps energy, three in ten of its actions random, demonstrate, and are half of "
    "each batch in both arms, as in RLPD.",
)
