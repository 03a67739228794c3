"""Episodes without actions, labelled by an inverse model: Zheng, Henaff, Amos and Grover (2023)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up
from forage.studies.datasets.label import label

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def known() -> str:
    return played("Pendulum-v1", swing_up, (1.0,) * 4)


def labelled() -> dict[str, Any]:
    """Return the random episodes, and better ones with the actions that a network says."""
    file = Path(known())
    output = file.with_name(f"{file.stem}-labelled.npz")
    if not output.exists():
        label(played("Pendulum-v1", swing_up, (0.25,) * 16, seed=1), output, labelled=file)
    return {"data": str(output), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Semi-Supervised Offline Reinforcement Learning with Action-Free Trajectories",
    authors="Zheng, Henaff, Amos, Grover",
    year=2023,
    arxiv="2210.06518",
    statement="Beside a few bad episodes with actions, good ones without actions, labelled by an inverse model, raise "
    "the returns of implicit Q-learning.",
    environment="Pendulum-v1",
    arms={
        "labelled alone": Arm("iql", SMALL, lambda: {"data": known(), "rewards": Scaled(0.1)}),
        "with labels from a model": Arm("iql", SMALL, labelled),
    },
    treatment="with labels from a model",
    baselines=("labelled alone",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 200_000, 5, "a GPU and hours", lacks="the data sets of D4RL"),
    note="4 episodes of random actions, and 16 of a rule that swings the pendulum up, a quarter of whose actions are "
    "random and all of which are hidden, in place of D4RL; IQL in place of TD3+BC, CQL and Decision Transformer.",
)
