"""Longer returns learn sooner: Hessel and others (2017)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, area

OPTIONS = {"dueling": False}

CLAIM = Claim(
    title="Rainbow: Combining Improvements in Deep Reinforcement Learning",
    authors="Hessel, Modayil, van Hasselt, Schaul, Ostrovski, Dabney, Horgan, Piot, Azar, Silver",
    year=2017,
    arxiv="1710.02298",
    statement="Returns over three steps in place of one speed up deep Q-learning.",
    environment="Acrobot-v1",
    arms={
        "1 step": Arm("dqn", OPTIONS | {"n_step": 1}),
        "1 step, half the rate": Arm("dqn", OPTIONS | {"n_step": 1, "learning_rate": 2.5e-4}),
        "1 step, twice the rate": Arm("dqn", OPTIONS | {"n_step": 1, "learning_rate": 1e-3}),
        "3 steps": Arm("dqn", OPTIONS | {"n_step": 3}),
    },
    treatment="3 steps",
    baselines=("1 step", "1 step, half the rate", "1 step, twice the rate"),
    measure=area,
    measured="mean return over training",
    laptop=Scale(60_000, FRESH),
    smoke=Scale(2000, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Pong-v5", 50_000_000, 3, "a GPU and days"),
    note="Acrobot in place of Atari games, and without the other five parts of Rainbow but double Q-learning. DQN's "
    "defaults were tuned with returns over five steps and not with one, so that one step gets two more learning rates; "
    "three steps keep the default one.",
)
