"""A gated velocity makes flows learn with SAC's losses: Zhang and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.memory.uniform import UniformReplay
from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

SMALL: dict[str, Any] = {"hidden_sizes": (64,), "value_sizes": (64, 64), "noise_sizes": (64,), "batch_size": 64}
SMALL |= {"learning_rate": 1e-3, "learning_starts": 500}


def parts() -> dict[str, Any]:
    return {"memory": UniformReplay(10_000), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="SAC Flow: Sample-Efficient Reinforcement Learning of Flow-Based Policies via Velocity-Reparameterized "
    "Sequential Modeling",
    authors="Zhang, Yu, Zhang, Guang, Hui, Long, Wang, Yu, Ding",
    year=2025,
    arxiv="2509.25756",
    statement="Soft actor-critic whose policy is a flow of eight steps has higher returns in training where its "
    "velocity is gated than where it is a plain network.",
    environment="Pendulum-v1",
    arms={
        "plain": Arm("sac-flow", SMALL | {"flow": "plain", "flow_steps": 8}, parts),
        "gated": Arm("sac-flow", SMALL | {"flow_steps": 8}, parts),
    },
    treatment="gated",
    baselines=("plain",),
    measure=area,
    measured="mean return in training",
    laptop=Scale(4000, SEEDS[:5]),
    smoke=Scale(600, (1000, 1001)),
    paper=Paper("gymnasium:Walker2d-v5", 1_000_000, 5, "a GPU and hours", arms={}),
    note="Eight steps in place of four, as gradients through more steps vanish or explode sooner, and small networks.",
)
