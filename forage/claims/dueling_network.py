"""Value and advantage apart learn sooner: Wang and others (2015)."""

from __future__ import annotations

from forage.claims.claim import Arm, Claim, Paper, Scale, area

OPTIONS = {"n_step": 1}

CLAIM = Claim(
    title="Dueling Network Architectures for Deep Reinforcement Learning",
    authors="Wang, Schaul, Hessel, van Hasselt, Lanctot, de Freitas",
    year=2015,
    arxiv="1511.06581",
    statement="A network with separate streams for value and advantage learns better than one with a single stream.",
    environment="Acrobot-v1",
    arms={
        "one stream": Arm("dqn", OPTIONS | {"dueling": False}),
        "dueling": Arm("dqn", OPTIONS | {"dueling": True}),
    },
    treatment="dueling",
    baselines=("one stream",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(60_000),
    smoke=Scale(2000, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Pong-v5", 50_000_000, 3, "a GPU and days"),
    note="Acrobot, with three actions, in place of Atari games; the paper finds the gain to grow with their number. "
    "The arms are not of one size: each stream has a hidden layer of its own, so the dueling network has 13,188 "
    "weights against 4,803, and what these alone bring is not told apart.",
)
