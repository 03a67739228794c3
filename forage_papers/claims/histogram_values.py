"""Values learned as classes learn better than as numbers: Farebrother and others (2024)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

SMALL: dict[str, Any] = {"n_step": 1, "dueling": False}
HISTOGRAM = SMALL | {"bins": 51, "lowest_value": -5.0, "highest_value": 105.0}

CLAIM = Claim(
    title="Stop Regressing: Training Value Functions via Classification for Scalable Deep RL",
    authors="Farebrother, Orbay, Vuong, Taiga, Chebotar, Xiao, Irpan, Levine, Castro, Faust, Kumar, Agarwal",
    year=2024,
    arxiv="2403.03950",
    statement="DQN whose values are histograms, learned by cross-entropy, has higher returns in training than with the "
    "squared error.",
    environment="CartPole-v1",
    arms={"numbers": Arm("dqn", SMALL), "histograms": Arm("dqn", HISTOGRAM)},
    treatment="histograms",
    baselines=("numbers",),
    measure=area,
    measured="mean return in training",
    laptop=Scale(50_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Breakout-v5", 50_000_000, 5, "GPUs and days"),
    note="CartPole in place of Atari.",
)
