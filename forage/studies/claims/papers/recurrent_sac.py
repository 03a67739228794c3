"""Memory in actor and critics makes up for what is not seen: Yang and Nguyen (2021)."""

from __future__ import annotations

from forage.environments.classic.pendulum import Pendulum
from forage.environments.wrappers.selection import Masked
from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated


def hidden_velocity() -> Masked:
    """Make Pendulum without its velocity."""
    return Masked(Pendulum(), (0, 1))


REPLAY = {"num_envs": 4, "rollout_length": 8, "updates_per_rollout": 8, "hidden_sizes": (64, 64), "learning_rate": 1e-3}
MEMORY = {"memory_size": 32, "memory_layers": 1, "unroll": 50, "batch_size": 16, "learning_starts": 1600}

CLAIM = Claim(
    title="Recurrent Off-policy Baselines for Memory-based Continuous Control",
    authors="Yang, Nguyen",
    year=2021,
    arxiv="2110.12628",
    statement="Where velocities are hidden soft actor-critic with memory has higher returns than without.",
    environment=hidden_velocity,
    arms={
        "no memory": Arm("sac", REPLAY | {"batch_size": 128, "learning_starts": 1600}),
        "LSTM": Arm("recurrent-sac", REPLAY | MEMORY),
    },
    treatment="LSTM",
    baselines=("no memory",),
    measure=evaluated,
    measured="return",
    laptop=Scale(16_000, FRESH[:5]),
    smoke=Scale(2400, (1000, 1001)),
    paper=Paper(
        "gymnasium:HalfCheetah-v5", 1_000_000, 5, "a GPU and days", lacks="PyBullet tasks with velocities hidden"
    ),
    note="Pendulum in place of PyBullet tasks, small networks, and pieces of 50 steps in place of whole episodes.",
)
