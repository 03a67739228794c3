"""A bonus for what is new finds what chance does not: Burda and others (2018)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="Exploration by Random Network Distillation",
    authors="Burda, Edwards, Storkey, Klimov",
    year=2018,
    arxiv="1810.12894",
    statement="With random network distillation an agent finds a reward that epsilon-greedy exploration does not.",
    environment="DeepSea-14",
    arms={
        "epsilon-greedy": Arm("dqn"),
        "with RND": Arm("dqn", parts=lambda: {"rewards": "rnd"}),
    },
    treatment="with RND",
    baselines=("epsilon-greedy",),
    measure=evaluated,
    measured="return",
    laptop=Scale(60_000, tuple(range(1000, 1005))),
    smoke=Scale(1500, (1000, 1001)),
    paper=Paper("gymnasium:ALE/MontezumaRevenge-v5", 492_000_000, 3, "many GPUs and days"),
    note="DeepSea (Osband and others, 2019, arXiv 1908.03568) and DQN in place of Montezuma's Revenge and PPO.",
)
