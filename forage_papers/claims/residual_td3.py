"""Corrections of a frozen policy: Ankile and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import push

KIT = {"hidden_sizes": (64, 64), "critics": 4, "target_subset": 2, "climb": "mean", "layer_norm": True}
KIT |= {"num_envs": 4, "updates_per_rollout": 4, "policy_delay": 4, "batch_size": 128, "learning_rate": 1e-3}


CLAIM = Claim(
    title="Residual Off-Policy RL for Finetuning Behavior Cloning Policies",
    authors="Ankile, Jiang, Duan, Shi, Abbeel, Nagabandi",
    year=2025,
    arxiv="2509.19301",
    statement="Off-policy corrections of a frozen policy end above that policy, and above the same learner without it.",
    environment="MountainCarContinuous-v0",
    arms={
        "TD3": Arm("td3", KIT),
        "base": Arm("residual-td3", KIT | {"base": push, "residual_scale": 1e-4}),
        "residual": Arm("residual-td3", KIT | {"base": push, "residual_scale": 0.5, "critic_warmup": 2000}),
    },
    treatment="residual",
    baselines=("TD3", "base"),
    measure=evaluated,
    measured="return",
    laptop=Scale(16_000, tuple(range(1000, 1005))),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("robomimic:Can", 300_000, 5, "a GPU and a day", lacks="the simulator and a cloned policy"),
    note="A rule that pumps energy at full force, for which the task charges, in place of a cloned policy. The base's "
    "own arm may correct it by a ten-thousandth.",
)
