"""Rewards of one and nought imitate: Reddy, Dragan and Levine (2020)."""

from __future__ import annotations

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import balance, played
from forage_papers.memory.sqil import SQIL


def demonstration() -> str:
    return played("CartPole-v1", balance, (0.0,))


CLAIM = Claim(
    title="SQIL: Imitation Learning via Reinforcement Learning with Sparse Rewards",
    authors="Reddy, Dragan, Levine",
    year=2020,
    arxiv="1905.11108",
    statement="From one demonstration, soft Q-learning that is paid 1 for the demonstration and 0 for its own steps "
    "has higher returns than behaviour cloning.",
    environment="CartPole-v1",
    arms={
        "behaviour cloning": Arm(
            "bc", {"hidden_sizes": (64, 64), "learning_rate": 1e-3}, lambda: {"data": demonstration()}, steps=5000
        ),
        "SQIL": Arm(
            "sac-discrete",
            {"learning_rate": 1e-3, "hidden_sizes": (64, 64), "target_entropy": 0.2},
            lambda: {"memory": SQIL(demonstrations=demonstration())},
        ),
    },
    treatment="SQIL",
    baselines=("behaviour cloning",),
    measure=evaluated,
    measured="return",
    laptop=Scale(20_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:LunarLander-v3", 500_000, 10, "a CPU and a day", lacks="the experts of the paper"),
    note="One episode of a rule that balances the pole, in place of the paper's experts; discrete SAC in place of soft "
    "Q-learning.",
)
