"""Reward for following a reference motion."""

from __future__ import annotations

from typing import Any, ClassVar

from forage.core.ports import Rewards
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience


class Tracking(Rewards):
    """r' = imitation * tracking + task * r, with tracking the similarity to the motion of the wrapper `motion`.

    Source: Peng, Abbeel, Levine, van de Panne (2018), "DeepMimic: Example-Guided Deep Reinforcement Learning of
    Physics-Based Character Skills", arXiv 1804.02717, whose policies with a task of their own weigh both. The score
    still counts the environment's own reward.
    """

    example: ClassVar[str] = (
        "forage train ppo Pendulum-v1 --wrap motion:swing.npz:0,1:2 --rewards tracking --starts reference"
    )
    ranges: ClassVar[Ranges] = {"imitation": Range(0), "task": Range(0)}
    needs: ClassVar[Needs] = Needs(
        info=("tracking",),
        one_reward=True,
        reason="Tracking pays for following a motion",
        instead="wrap it in one, as in --wrap motion:FILE:POSE:VELOCITY",
    )

    imitation: float = 1.0  # weight of the tracking, which lies between 0 and 1
    task: float = 0.0  # weight of the environment's own reward; above 0 the motion is a means to it

    def relabel(self, state: Any, experience: Experience) -> Experience:
        reward = self.imitation * experience.info["tracking"] + self.task * experience.reward
        return experience._replace(reward=reward)
