"""A bonus for states that hashes have counted seldom: Tang and others (2017)."""

from __future__ import annotations

from forage.rewards.bonuses.counts import Counts
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="#Exploration: A Study of Count-Based Exploration for Deep Reinforcement Learning",
    authors="Tang, Houthooft, Foote, Stooke, Chen, Duan, Schulman, De Turck, Abbeel",
    year=2017,
    arxiv="1611.04717",
    statement="A bonus that falls with the visits of a state's hash finds a reward that is not found without it.",
    environment="DeepSea-14",
    arms={
        "without": Arm("dqn"),
        "with counts": Arm("dqn", parts=lambda: {"rewards": Counts(weight=1.0)}),
    },
    treatment="with counts",
    baselines=("without",),
    measure=evaluated,
    measured="return",
    laptop=Scale(30_000, tuple(range(1000, 1005))),
    smoke=Scale(1500, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Freeway-v5", 50_000_000, 5, "a GPU and days"),
    note="DeepSea (Osband and others, 2019, arXiv 1908.03568) and DQN in place of Atari games and TRPO.",
)
