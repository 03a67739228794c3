"""Off-policy maximum entropy learns from fewer steps: Haarnoja, Zhou, Abbeel and Levine (2018)."""

from __future__ import annotations

from forage.claims.claim import Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="Soft Actor-Critic: Off-Policy Maximum Entropy Deep Reinforcement Learning with a Stochastic Actor",
    authors="Haarnoja, Zhou, Abbeel, Levine",
    year=2018,
    arxiv="1801.01290",
    statement="After the same small number of steps soft actor-critic has higher returns than PPO.",
    environment="Pendulum-v1",
    arms={
        "PPO": Arm("ppo"),
        "SAC": Arm("sac", {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}),
    },
    treatment="SAC",
    baselines=("PPO",),
    measure=evaluated,
    measured="return",
    laptop=Scale(10_240, tuple(range(1000, 1005))),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 3_000_000, 5, "a GPU and days"),
    note="Pendulum in place of MuJoCo tasks; small networks for SAC, PPO as tuned here. The arms are not tuned alike: "
    "SAC's settings were chosen for this claim, PPO has a preset for 500,000 steps and gets 10 rollouts. A run "
    "on fresh seeds is still to come.",
)
