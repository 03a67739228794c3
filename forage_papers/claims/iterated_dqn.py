"""A chain of values looks several Bellman updates ahead: Vincent and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

SMALL: dict[str, Any] = {"n_step": 1, "dueling": False, "double": False}

CLAIM = Claim(
    title="Iterated Q-Network: Beyond One-Step Bellman Updates in Deep Reinforcement Learning",
    authors="Vincent, Palenicek, Belousov, Peters, D'Eramo",
    year=2025,
    arxiv="2403.02107",
    statement="Five values in a chain, each the next one's target, have higher returns in training than DQN.",
    environment="CartPole-v1",
    arms={"DQN": Arm("dqn", SMALL), "5 values": Arm("i-dqn", {"n_step": 1, "dueling": False, "chain": 5})},
    treatment="5 values",
    baselines=("DQN",),
    measure=area,
    measured="mean return in training",
    laptop=Scale(50_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Breakout-v5", 50_000_000, 5, "GPUs and days"),
    note="CartPole in place of Atari.",
)
