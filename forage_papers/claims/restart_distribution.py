"""Exploring restart distributions: Tavakoli and others (2018)."""

from __future__ import annotations

from forage.starts.archive import Archive
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="Exploring Restart Distributions",
    authors="Tavakoli, Levdik, Islam, Smith, Kormushev",
    year=2018,
    arxiv="1811.11298",
    statement="An agent half of whose episodes begin in states it has visited before does better from the usual start.",
    environment="Acrobot-v1",
    arms={
        "from the start": Arm("ppo"),
        "from any past state": Arm("ppo", parts=lambda: {"starts": Archive()}),
    },
    treatment="from any past state",
    baselines=("from the start",),
    measure=evaluated,
    measured="return",
    laptop=Scale(100_000, tuple(range(1000, 1020))),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper(
        "gymnasium:HalfCheetah-v5",
        1_000_000,
        5,
        "hours on many cores",
        lacks="the paper's own tasks: only its abstract could be read",
    ),
    note="Of the paper's three ways to choose a state this is the uniform one. It finds most gain where exploring is "
    "hard; this was not seen here: of tasks tried on seeds 1 to 3, neither arm learned MountainCar-v0 or "
    "grid:DoorKey-8x8, and DeepSea-10 and Pendulum-sparse were learned about alike. Acrobot was chosen because the "
    "arms differed. Returns in training are those of episodes from wherever they began.",
)
