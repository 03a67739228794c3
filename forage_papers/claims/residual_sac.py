"""Corrections by SAC of a frozen policy, paid seldom: Ankile and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.memory.uniform import UniformReplay
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import loosely

KIT: dict[str, Any] = {"hidden_sizes": (64, 64), "critics": 4, "target_subset": 2, "climb": "mean", "layer_norm": True}
KIT |= {"num_envs": 4, "updates_per_rollout": 4, "policy_delay": 4, "batch_size": 128, "learning_rate": 1e-3}
KIT |= {"learning_starts": 500, "backup_entropy": False, "initial_temperature": 0.1}


def parts() -> dict[str, Any]:
    return {"memory": UniformReplay(20_000)}


CLAIM = Claim(
    title="Residual Off-Policy RL for Finetuning Behavior Cloning Policies",
    authors="Ankile, Jiang, Duan, Shi, Abbeel, Nagabandi",
    year=2025,
    arxiv="2509.19301",
    statement="Where reward is sparse, soft actor-critic that corrects a frozen policy ends above that policy, and "
    "above soft actor-critic without it.",
    environment="Pendulum-sparse",
    arms={
        "SAC": Arm("sac", KIT, parts),
        "base": Arm("residual-sac", KIT | {"base": loosely, "residual_scale": 1e-4}, parts, steps=1000),
        "residual": Arm("residual-sac", KIT | {"base": loosely, "residual_scale": 0.5, "critic_warmup": 1000}, parts),
    },
    treatment="residual",
    baselines=("SAC", "base"),
    measure=evaluated,
    measured="return",
    laptop=Scale(8000, SEEDS[:5]),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("robomimic:Can", 300_000, 5, "a GPU and a day", lacks="the simulator and a cloned policy"),
    note="A rule that swings the pendulum up and does not keep it up, in place of a cloned policy. The base's own arm "
    "may correct it by a ten-thousandth. The paper has TD3, for which `residual-td3` is the claim.",
)
