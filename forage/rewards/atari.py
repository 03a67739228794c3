"""The learning signal in Atari games, apart from the score: clipped rewards, and lives that end."""

from __future__ import annotations

from typing import Any, ClassVar

from forage.core.host import LIFE_LOST
from forage.core.ports.needs import Needs
from forage.core.types import Experience
from forage.rewards.scaling import Scale


class AtariRewards(Scale):
    """r' = clip(factor r, low, high), and a life that is lost is an end: no value is expected after it.

    The game goes on all the same, so that an episode, its return and a score are those of whole games and of the
    game's own rewards, in training and in evaluation.

    Source: Mnih et al. (2015), "Human-level control through deep reinforcement learning", Nature 518, methods,
    "Training details".
    """

    example: ClassVar[str] = "forage train dqn ale:Breakout --rewards atari"
    ends: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(
        info=(LIFE_LOST,),
        reason="AtariRewards end at a lost life",
        instead="games such as ale:Pong and gymnasium:ALE/Pong-v5 do; elsewhere --rewards scale clips alone",
    )

    low: float = -1.0  # least reward that is left
    high: float = 1.0  # greatest reward that is left

    def relabel(self, state: Any, experience: Experience) -> Experience:
        experience = super().relabel(state, experience)
        lost = experience.info[LIFE_LOST] > 0
        return experience._replace(terminated=experience.terminated | lost, truncated=experience.truncated & ~lost)
