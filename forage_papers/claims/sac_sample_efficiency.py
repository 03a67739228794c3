"""Off-policy maximum entropy learns from fewer steps: Haarnoja, Zhou, Abbeel and Levine (2018)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated

SHORT = {"num_envs": 4, "rollout_length": 64, "minibatches": 4, "epochs": 10, "learning_rate": 1e-3}

CLAIM = Claim(
    title="Soft Actor-Critic: Off-Policy Maximum Entropy Deep Reinforcement Learning with a Stochastic Actor",
    authors="Haarnoja, Zhou, Abbeel, Levine",
    year=2018,
    arxiv="1801.01290",
    statement="After the same small number of steps soft actor-critic has higher returns than PPO.",
    environment="Pendulum-v1",
    arms={
        "PPO": Arm("ppo"),
        "PPO, short rollouts": Arm("ppo", SHORT),
        "SAC": Arm("sac", {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}),
    },
    treatment="SAC",
    baselines=("PPO", "PPO, short rollouts"),
    measure=evaluated,
    measured="return",
    laptop=Scale(10_240, FRESH[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 3_000_000, 5, "a GPU and days"),
    note="Pendulum in place of MuJoCo tasks; small networks for SAC. PPO has its preset, which was tuned for 500,000 "
    "steps and leaves ten rollouts here, and, by itself, settings for few steps: 40 rollouts of 256 steps.",
)
