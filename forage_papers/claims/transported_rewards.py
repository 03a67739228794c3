"""Rewards by optimal transport from one demonstration: Luo and others (2023)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Rule, Scale, evaluated
from forage.studies.claims.played import played, swing_up
from forage.studies.datasets.label import label

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0) * 4


def data() -> str:
    return played("Pendulum-v1", swing_up, SHARES)


def paid() -> dict[str, Any]:
    """Return the data with rewards that one episode of the rule teaches."""
    file = Path(data())
    output = file.with_name(f"{file.stem}-transported.npz")
    if not output.exists():
        label(file, output, demonstrations=played("Pendulum-v1", swing_up, (0.0,), seed=1))
    return {"data": str(output), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Optimal Transport for Offline Imitation Learning",
    authors="Luo, Jiang, Cohen, Grefenstette, Deisenroth",
    year=2023,
    arxiv="2303.13971",
    statement="Implicit Q-learning with rewards that one demonstration teaches by optimal transport has returns no "
    "more than 100 below those with the environment's own rewards.",
    environment="Pendulum-v1",
    arms={
        "behaviour cloning": Arm("bc", SMALL, lambda: {"data": data()}),
        "own rewards": Arm("iql", SMALL, lambda: {"data": data(), "rewards": Scaled(0.1)}),
        "transported": Arm("iql", SMALL, paid),
    },
    treatment="transported",
    baselines=("own rewards",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and hours", lacks="the data sets of D4RL"),
    rule=Rule(margin=-100.0),
    note="20 episodes of a rule that swings the pendulum up, with ever more random actions, in place of D4RL. Both "
    "rewards are scaled by a tenth; those by transport span 1,000 before. Cloning is shown beside it.",
)
