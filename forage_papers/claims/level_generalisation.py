"""Few levels are learned by heart: Cobbe, Hesse, Hilton and Schulman (2020)."""

from __future__ import annotations

from forage.starts.levels import Levels
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="Leveraging Procedural Generation to Benchmark Reinforcement Learning",
    authors="Cobbe, Hesse, Hilton, Schulman",
    year=2020,
    arxiv="1912.01588",
    statement="An agent trained on many levels does better on unseen ones than an agent trained on few.",
    environment="grid:DoorKey-5x5",
    arms={
        "5 levels": Arm("ppo", parts=lambda: {"starts": Levels(5)}),
        "500 levels": Arm("ppo", parts=lambda: {"starts": Levels(500)}),
    },
    treatment="500 levels",
    baselines=("5 levels",),
    measure=evaluated,
    measured="return on unseen levels",
    laptop=Scale(300_000, tuple(range(1000, 1005))),
    smoke=Scale(16_384, (1000, 1001)),
    paper=Paper("grid:MultiRoom-N6", 200_000_000, 3, "a GPU and days"),
    note="Rooms with a key and a door in place of the sixteen games of Procgen.",
)
