"""Few updates until the critics' activity has settled, and many from then on: Ma and others (2024)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "learning_starts": 400}
SMALL |= {"rollout_length": 2}
ADAPTIVE = SMALL | {"low_updates": 1, "updates_per_rollout": 4, "check_interval": 200, "window": 50, "gap": 0.01}

CLAIM = Claim(
    title="Revisiting Plasticity in Visual Reinforcement Learning: Data, Modules and Training Stages",
    authors="Ma, Li, Zhang, Wei, Wang, Chen, Zhao, Du, Liu, Tao",
    year=2024,
    arxiv="2310.07418",
    statement="A ratio of updates that grows once the critics' activity has settled has higher returns in training "
    "than a low one and than a high one throughout.",
    environment="Pendulum-v1",
    arms={
        "low": Arm("sac", SMALL | {"updates_per_rollout": 1}),
        "high": Arm("sac", SMALL | {"updates_per_rollout": 4}),
        "adaptive": Arm("adaptive-ratio-sac", ADAPTIVE),
    },
    treatment="adaptive",
    baselines=("low", "high"),
    measure=area,
    measured="mean return in training",
    laptop=Scale(6000, SEEDS[:5]),
    smoke=Scale(800, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 2_000_000, 5, "a GPU and days", lacks="pixels of DeepMind Control"),
    note="Pendulum's numbers in place of pixels, without augmentation, and SAC in place of DrQ-v2.",
)
