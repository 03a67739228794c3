"""Details of the code matter: Engstrom and others (2020)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="Implementation Matters in Deep Policy Gradients: A Case Study on PPO and TRPO",
    authors="Engstrom, Ilyas, Santurkar, Tsipras, Janoos, Rudolph, Madry",
    year=2020,
    arxiv="2005.12729",
    statement="Annealing PPO's learning rate to zero ends with higher returns than keeping it.",
    environment="Pendulum-v1",
    arms={
        "constant": Arm("ppo", {"final_learning_rate": 1.0}),
        "annealed": Arm("ppo", {"final_learning_rate": 0.0}),
    },
    treatment="annealed",
    baselines=("constant",),
    measure=evaluated,
    measured="return",
    laptop=Scale(100_000, FRESH),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 1_000_000, 10, "hours on many cores"),
    note="One of the nine details that the paper varies, on Pendulum in place of Hopper, Walker2d and Humanoid. On "
    "CartPole, where it was run first, 39 of 40 seeds ended at 500, the most there is.",
)
