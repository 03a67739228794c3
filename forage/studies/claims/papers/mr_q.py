"""Model-based representations learn values from fewer steps: Fujimoto, D'Oro, Zhang, Tian and Rabbat (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated

SMALL = {"hidden_size": 64, "latent_size": 64, "action_size": 16, "batch_size": 128, "learning_starts": 1000}
BLIND = {"dynamics_weight": 0.0, "reward_weight": 0.0, "terminal_weight": 0.0}
OPTIONS = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_starts": 1000}

CLAIM = Claim(
    title="Towards General-Purpose Model-Free Reinforcement Learning",
    authors="Fujimoto, D'Oro, Zhang, Tian, Rabbat",
    year=2025,
    arxiv="2501.16142",
    statement="After the same small number of steps MR.Q has higher returns than TD3, and than with an encoder that "
    "learns nothing.",
    environment="Pendulum-v1",
    arms={
        "TD3": Arm("td3", OPTIONS),
        "encoder that learns nothing": Arm("mr-q", SMALL | BLIND),
        "MR.Q": Arm("mr-q", SMALL),
    },
    treatment="MR.Q",
    baselines=("TD3", "encoder that learns nothing"),
    measure=area,
    measured="mean return over training",
    also=(Also(evaluated, "return"),),
    laptop=Scale(6000, FRESH[:5]),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and hours"),
    note="Pendulum in place of 118 environments, small networks, and 1,000 random steps in place of 10,000.",
)
