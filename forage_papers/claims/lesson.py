"""Choosing among ways of exploring is learned: Kim and others (2023)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area
from forage_papers.behaviours.lesson import Lesson

OPTIONS = {"n_step": 1}

CLAIM = Claim(
    title="LESSON: Learning to Integrate Exploration Strategies for Reinforcement Learning via an Option Framework",
    authors="Kim, Kim, Sung",
    year=2023,
    arxiv="2310.03342",
    statement="Options that are whole ways of exploring, chosen and ended by learning, do better than epsilon-greedy.",
    environment="DeepSea-10",
    arms={
        "epsilon-greedy": Arm("dqn", OPTIONS),
        "LESSON": Arm("dqn", OPTIONS, lambda: {"behaviour": Lesson(novelty_scale=0.1)}),
    },
    treatment="LESSON",
    baselines=("epsilon-greedy",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(30_000, tuple(range(1000, 1005))),
    smoke=Scale(1600, (1000, 1001)),
    paper=Paper("minigrid:MiniGrid-DoorKey-8x8-v0", 1_000_000, 5, "a day"),
    note="Deep sea in place of MiniGrid; the measure is of training itself, exploration included.",
)
