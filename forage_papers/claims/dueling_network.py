"""Value and advantage apart learn sooner: Wang and others (2015)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

OPTIONS = {"n_step": 1}

CLAIM = Claim(
    title="Dueling Network Architectures for Deep Reinforcement Learning",
    authors="Wang, Schaul, Hessel, van Hasselt, Lanctot, de Freitas",
    year=2015,
    arxiv="1511.06581",
    statement="A network with separate streams for value and advantage learns better than one with a single stream.",
    environment="Acrobot-v1",
    arms={
        "one stream": Arm("dqn", OPTIONS | {"dueling": False, "hidden_sizes": (64, 64, 128)}),
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
    "As there, the arms are of one size: the one stream's last layer has as many units as those of both streams "
    "together, 13,315 weights against 13,188.",
)
