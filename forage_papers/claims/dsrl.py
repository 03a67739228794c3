"""Steering a frozen flow by its noise: Wagenmaker and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.memory.uniform import UniformReplay
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up
from forage.studies.claims.prepared import learned

IMITATES: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "alpha": 1e4}
KIT: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "critic_norm": "layer"}
KIT |= {"num_envs": 4, "updates_per_rollout": 4, "learning_starts": 500, "backup_entropy": False}
UPDATES = 3000


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-sparse", swing_up, (0.5,) * 20)}


def parts() -> dict[str, Any]:
    return {"memory": UniformReplay(20_000)}


def steered() -> dict[str, Any]:
    base = learned("fql", "Pendulum-sparse", UPDATES, 0, IMITATES, **data())
    return parts() | {"agent_options": {"base": base}}


CLAIM = Claim(
    title="Steering Your Diffusion Policy with Latent Space Reinforcement Learning",
    authors="Wagenmaker, Nakamoto, Zhang, Park, Yagoub, Nagabandi, Gupta, Levine",
    year=2025,
    arxiv="2506.15799",
    statement="Choosing the noise of a frozen flow that imitates data ends above that flow, and above soft "
    "actor-critic without it.",
    environment="Pendulum-sparse",
    arms={
        "flow": Arm("fql", IMITATES, data, steps=UPDATES),
        "SAC": Arm("sac", KIT | {"target_entropy": -1.0}, parts),
        "DSRL": Arm("dsrl", KIT, steered),
    },
    treatment="DSRL",
    baselines=("flow", "SAC"),
    measure=evaluated,
    measured="return",
    laptop=Scale(6000, SEEDS[:5]),
    smoke=Scale(800, (1000, 1001)),
    paper=Paper("robomimic:Can", 1_000_000, 5, "a GPU and a day", lacks="the simulator and its diffusion policies"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, are imitated in place "
    "of demonstrations, by a flow that is told in one step (`fql`, whose values weigh nothing). All seeds of DSRL "
    "steer one such policy, of another seed; the arm of the flow has one each. The paper's steps and seeds "
    "could not be looked up.",
)
