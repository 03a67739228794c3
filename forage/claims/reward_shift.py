"""A negative constant added to the reward makes an agent explore: Sun and others (2022)."""

from __future__ import annotations

from forage.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage.rewards.shift import Shift

CLAIM = Claim(
    title="Exploit Reward Shifting in Value-Based Deep-RL: Optimistic Curiosity-Based Exploration and Conservative "
    "Exploitation via Linear Reward Shaping",
    authors="Sun, Han, Yang, Ma, Guo, Zhou",
    year=2022,
    arxiv="2209.07288",
    statement="A negative constant added to every reward makes a learner of values explore; a positive one does not.",
    environment="tabular:RiverSwim-6",
    arms={
        "no shift": Arm("dqn"),
        "shift -0.5": Arm("dqn", parts=lambda: {"rewards": Shift(-0.5)}),
        "shift +0.5": Arm("dqn", parts=lambda: {"rewards": Shift(0.5)}),
    },
    treatment="shift -0.5",
    baselines=("no shift", "shift +0.5"),
    measure=evaluated,
    measured="return",
    laptop=Scale(20_000, tuple(range(1000, 1005))),
    smoke=Scale(1500, (1000, 1001)),
    paper=Paper("grid:FourRooms", 10_000_000, 5, "a GPU and a day"),
    note="RiverSwim, where a near reward keeps the greedy from a far one, in place of a smaller MiniGrid FourRooms.",
)
