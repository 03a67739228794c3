"""Replay in shuffled epochs instead of with replacement: Fujita (2025)."""

from __future__ import annotations

from typing import Any

from forage.memory.uniform import UniformReplay
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area
from forage_papers.memory.reshuffled import ReshuffledReplay

SMALL: dict[str, Any] = {"n_step": 1, "dueling": False}

CLAIM = Claim(
    title="Experience Replay with Random Reshuffling",
    authors="Fujita",
    year=2025,
    arxiv="2503.02269",
    statement="DQN that draws each transition once in every epoch has higher returns in training than with "
    "replacement.",
    environment="CartPole-v1",
    arms={
        "with replacement": Arm("dqn", SMALL, lambda: {"memory": UniformReplay(20_000)}),
        "reshuffled": Arm("dqn", SMALL, lambda: {"memory": ReshuffledReplay(20_000)}),
    },
    treatment="reshuffled",
    baselines=("with replacement",),
    measure=area,
    measured="mean return in training",
    laptop=Scale(50_000, SEEDS),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Breakout-v5", 10_000_000, 10, "GPUs and days"),
    note="CartPole in place of Atari.",
)
