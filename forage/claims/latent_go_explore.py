"""Go-Explore without cells: Gallouédec and Dellandréa (2023)."""

from __future__ import annotations

from forage.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage.starts.archive import Archive
from forage.starts.latent_go_explore import LatentGoExplore

OPTIONS = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8}

CLAIM = Claim(
    title="Cell-Free Latent Go-Explore",
    authors="Gallouédec, Dellandréa",
    year=2023,
    arxiv="2208.14928",
    statement="Returning to states of low density in a learned latent space finds what exploring from the start does "
    "not, nor returning to any past state alike.",
    environment="MountainCar-v0",
    arms={
        "from the start": Arm("ppo", OPTIONS),
        "from any past state": Arm("ppo", OPTIONS, lambda: {"starts": Archive(probability=0.9)}),
        "Latent Go-Explore": Arm("ppo", OPTIONS, lambda: {"starts": LatentGoExplore()}),
    },
    treatment="Latent Go-Explore",
    baselines=("from the start", "from any past state"),
    measure=evaluated,
    measured="return",
    laptop=Scale(150_000, tuple(range(1000, 1005))),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper("gymnasium:ALE/MontezumaRevenge-v5", 1_000_000, 10, "a GPU and days"),
    note="The paper measures how much of a maze, a robot's table and Atari games is visited; here the agent must find "
    "the goal, which is far from the start, and learn from it.",
)
