"""Novelty within the episode times novelty within the run: Badia and others (2020)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage_papers.rewards.bonuses.episodic_novelty import EpisodicNovelty

OPTIONS = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8}

CLAIM = Claim(
    title="Never Give Up: Learning Directed Exploration Strategies",
    authors="Badia, Sprechmann, Vitvitskyi, Guo, Piot, Kapturowski, Tieleman, Arjovsky, Pritzel, Bolt, Blundell",
    year=2020,
    arxiv="2002.06038",
    statement="A bonus for what is new to the episode and to the run leads to a goal that is not reached without it.",
    environment="MountainCar-v0",
    arms={
        "without": Arm("ppo", OPTIONS),
        "with episodic novelty": Arm("ppo", OPTIONS, lambda: {"rewards": EpisodicNovelty(weight=1.0)}),
    },
    treatment="with episodic novelty",
    baselines=("without",),
    measure=evaluated,
    measured="return",
    laptop=Scale(200_000, tuple(range(1000, 1005))),
    smoke=Scale(8192, (1000, 1001)),
    paper=Paper(
        "gymnasium:ALE/MontezumaRevenge-v5",
        8_750_000_000,
        3,
        "hundreds of actors and weeks",
        lacks="policies for many weights of the bonus in one network",
    ),
    note="MountainCar and PPO, with one weight of the bonus, in place of Atari games and a family of policies of R2D2.",
)
