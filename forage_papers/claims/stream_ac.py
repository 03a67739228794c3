"""An actor-critic without replay or rollouts, step by step: Elsayed, Vasan and Mahmood (2024)."""

from __future__ import annotations

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

SMALL = {"hidden_sizes": (32, 32)}
ONE = {"num_envs": 1, "rollout_length": 1, "minibatches": 1, "epochs": 1, "normalise_advantage": False}

CLAIM = Claim(
    title="Streaming Deep Reinforcement Learning Finally Works",
    authors="Elsayed, Vasan, Mahmood",
    year=2024,
    arxiv="2410.14606",
    statement="From each transition once, stream AC(lambda) learns more in CartPole than PPO from rollouts of one "
    "transition.",
    environment="CartPole-v1",
    arms={"stream AC": Arm("stream-ac", SMALL), "PPO of one": Arm("ppo", SMALL | ONE)},
    treatment="stream AC",
    baselines=("PPO of one",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(50_000, SEEDS[:5]),
    smoke=Scale(600, (1000, 1001)),
    paper=Paper("CartPole-v1", 500_000, 10, "half an hour"),
    note="CartPole, which the authors' program has beside the paper's robots, with its network and a tenth of its "
    "steps. Nothing was tried before. The paper's own pages could not be looked up, nor its seeds.",
)
