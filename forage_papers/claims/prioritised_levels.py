"""Replaying the levels there is most to learn from: Jiang, Grefenstette and Rocktäschel (2021)."""

from __future__ import annotations

from forage.starts.levels import Levels
from forage.starts.prioritised_levels import PrioritisedLevels
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"num_envs": 16}

CLAIM = Claim(
    title="Prioritized Level Replay",
    authors="Jiang, Grefenstette, Rocktäschel",
    year=2021,
    arxiv="2010.03934",
    statement="Replaying training levels by their L1 value loss does better on unseen levels than drawing them alike.",
    environment="grid:DoorKey-5x5",
    arms={
        "uniform": Arm("ppo", OPTIONS, lambda: {"starts": Levels(200)}),
        "prioritised": Arm("ppo", OPTIONS, lambda: {"starts": PrioritisedLevels(200, staleness=0.3)}),
    },
    treatment="prioritised",
    baselines=("uniform",),
    measure=evaluated,
    measured="return on unseen levels",
    laptop=Scale(65_536, SEEDS[:5]),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper(
        "grid:ObstructedMaze-1Q",
        100_000_000,
        10,
        "a GPU and days",
        lacks="the paper's mixture of mazes, ObstructedMazeGamut",
    ),
    note="200 levels of a small room with a key and a door, with the staleness that the paper takes for MiniGrid; "
    "nothing was tuned, and training ends while the return still rises.",
)
