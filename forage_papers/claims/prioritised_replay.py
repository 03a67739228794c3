"""Replaying what surprises learns sooner: Schaul, Quan, Antonoglou and Silver (2015)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

OPTIONS = {"n_step": 1, "dueling": False}

CLAIM = Claim(
    title="Prioritized Experience Replay",
    authors="Schaul, Quan, Antonoglou, Silver",
    year=2015,
    arxiv="1511.05952",
    statement="Replaying transitions in proportion to their errors learns in fewer steps than replaying all alike.",
    environment="Acrobot-v1",
    arms={
        "uniform": Arm("dqn", OPTIONS),
        "prioritised": Arm("dqn", OPTIONS, lambda: {"memory": "prioritised"}),
    },
    treatment="prioritised",
    baselines=("uniform",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(60_000),
    smoke=Scale(2000, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Pong-v5", 50_000_000, 3, "a GPU and days"),
    note="Acrobot, whose reward tells nothing until the first success, in place of Atari games.",
)
