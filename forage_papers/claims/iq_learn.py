"""Values whose rewards are an expert's imitate from one demonstration: Garg and others (2021)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import balance, played


def demonstration() -> str:
    return played("CartPole-v1", balance, (0.0,))


CLONING: dict[str, Any] = {"hidden_sizes": (64, 64), "activation": "elu", "learning_rate": 1e-3, "batch_size": 32}

CLAIM = Claim(
    title="IQ-Learn: Inverse soft-Q Learning for Imitation",
    authors="Garg, Chakraborty, Cundy, Song, Ermon",
    year=2021,
    arxiv="2106.12142",
    statement="From one demonstration, inverse soft Q-learning has higher returns than behaviour cloning.",
    environment="CartPole-v1",
    arms={
        "behaviour cloning": Arm("bc", CLONING, lambda: {"data": demonstration()}, steps=5000),
        "IQ-Learn": Arm("iq-learn", {}, lambda: {"agent_options": {"demonstrations": demonstration()}}),
    },
    treatment="IQ-Learn",
    baselines=("behaviour cloning",),
    measure=evaluated,
    measured="return",
    laptop=Scale(20_000, tuple(range(4010, 4015))),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("CartPole-v1", 100_000, 5, "a CPU and an hour", lacks="the experts of the paper"),
    note="One episode of a rule that balances the pole, in place of the authors' expert.",
)
