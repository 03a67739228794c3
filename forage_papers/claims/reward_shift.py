"""A negative constant added to the reward makes an agent explore: Sun and others (2022)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage_papers.rewards.shift import Shift

CLAIM = Claim(
    title="Exploit Reward Shifting in Value-Based Deep-RL: Optimistic Curiosity-Based Exploration and Conservative "
    "Exploitation via Linear Reward Shaping",
    authors="Sun, Han, Yang, Ma, Guo, Zhou",
    year=2022,
    arxiv="2209.07288",
    statement="A negative constant added to every reward makes a learner of values explore; a positive one does not.",
    environment="tabular:RiverSwim-20",
    arms={
        "no shift": Arm("dqn"),
        "0.5 less": Arm("dqn", parts=lambda: {"rewards": Shift(-0.5)}),
        "0.5 more": Arm("dqn", parts=lambda: {"rewards": Shift(0.5)}),
    },
    treatment="0.5 less",
    baselines=("no shift", "0.5 more"),
    measure=evaluated,
    measured="return",
    laptop=Scale(20_000, tuple(range(1010, 1015))),
    smoke=Scale(1500, (1000, 1001)),
    paper=Paper("grid:FourRooms", 10_000_000, 5, "a GPU and a day"),
    note="RiverSwim, where a near reward keeps the greedy from a far one, in place of a smaller MiniGrid FourRooms.",
)
