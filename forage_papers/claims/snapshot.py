"""Early episodes begin where a teacher was: Zhao and others (2024)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from forage.starts.snapshot import Snapshot
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8}


def pump(observation: Any, key: Any) -> Any:
    """Pushes the way the car moves: 0 is left, 2 is right."""
    return jnp.where(observation[1] < 0, 0, 2).astype(jnp.int32)


CLAIM = Claim(
    title="Snapshot Reinforcement Learning: Leveraging Prior Trajectories for Efficiency",
    authors="Zhao, Qian, Wang, Shan, Qin",
    year=2024,
    arxiv="2403.00673",
    statement="An agent whose early episodes begin in states of a teacher's learns more from as many steps.",
    environment="MountainCar-v0",
    arms={
        "from the start": Arm("ppo", OPTIONS),
        "from snapshots": Arm("ppo", OPTIONS, lambda: {"starts": Snapshot(pump, share=0.5, steps=200)}),
    },
    treatment="from snapshots",
    baselines=("from the start",),
    measure=evaluated,
    measured="return",
    laptop=Scale(200_000, tuple(range(1000, 1005))),
    smoke=Scale(8192, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v4", 1_000_000, 5, "a GPU and hours", lacks="a trained teacher"),
    note="A rule that pumps energy is the teacher, in place of TD3 trained on MuJoCo tasks; half of the run is early, "
    "in place of a tenth, since the run is a fifth of the paper's.",
)
