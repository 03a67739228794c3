"""Augmented data help cloning where a rule keeps those that are progress: Corrado and others (2024)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from forage.data.logged import Transitions
from forage.memory.dataset import DataSet
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up
from forage_papers.memory.guided import Guided

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}
MIRROR = np.array([1.0, -1.0, -1.0])  # of cosine, sine and speed: what the pendulum does to the other side


def mirrored(segment: Transitions, draw: np.random.Generator) -> Transitions:
    """Return a segment of Pendulum-v1 as it is, or as it would have gone to the other side."""
    side, turned = (1.0, np.ones(3)) if draw.random() < 0.5 else (-1.0, MIRROR)
    return dataclasses.replace(
        segment,
        observation=segment.observation * turned,
        action=segment.action * side,
        next_observation=segment.next_observation * turned,
    )


def any_at_all(segment: Transitions) -> bool:
    """Agree with every segment."""
    return True


def upward(segment: Transitions) -> bool:
    """Say whether a segment ends upright and slow, or with more energy than it began with."""
    cosine, _, speed = segment.next_observation[-1]
    before = segment.observation[0]
    energy = [0.5 * row[2] ** 2 + 15.0 * row[0] for row in (before, segment.next_observation[-1])]
    return bool((cosine > 0.95 and abs(speed) < 1.0) or (energy[0] + 1.0 < energy[1] < 15.0))


def data(progress: Any = None) -> dict[str, Any]:
    file = played("Pendulum-v1", swing_up, (0.0,) * 2 + (0.8,) * 6)
    return {"memory": DataSet(file) if progress is None else Guided(file, "", mirrored, progress, 8.0)}


CLAIM = Claim(
    title="Guided Data Augmentation for Offline Reinforcement Learning and Imitation Learning",
    authors="Corrado, Qu, Balis, Labiosa, Hanna",
    year=2024,
    arxiv="2310.18247",
    statement="From a few mostly poor episodes, behaviour cloning has higher returns with augmented segments that a "
    "rule takes for progress than with all augmented segments, and than without any.",
    environment="Pendulum-v1",
    arms={
        "the data alone": Arm("bc", SMALL, data),
        "random augmentation": Arm("bc", SMALL, lambda: data(any_at_all)),
        "guided augmentation": Arm("bc", SMALL, lambda: data(upward)),
    },
    treatment="guided augmentation",
    baselines=("the data alone", "random augmentation"),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and hours", lacks="mazes, parking and robot soccer"),
    note="Two episodes of a rule that swings the pendulum up and six in which four of five actions are random, in "
    "place of the paper's mazes and soccer. Segments of 10 steps are mirrored or not; progress is more energy, or "
    "to be upright and slow.",
)
