"""The learning signal in Atari games, apart from the score: clipped rewards, and lives that end."""

from __future__ import annotations

from typing import Any, ClassVar

from forage.core.host import LIFE_LOST
from forage.core.types import Experience, ForageError, Spec
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

    low: float = -1.0  # least reward that is left
    high: float = 1.0  # greatest reward that is left

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if LIFE_LOST not in spec.info_names:
            raise ForageError(
                f"rewards atari end at a lost life, and {spec.name} does not say when one is lost: it has no number "
                f"{LIFE_LOST} in its info. Games such as ale:Pong and gymnasium:ALE/Pong-v5 do; elsewhere --rewards "
                f"scale clips alone."
            )

    def relabel(self, state: Any, experience: Experience) -> Experience:
        experience = super().relabel(state, experience)
        lost = experience.info[LIFE_LOST] > 0
        return experience._replace(terminated=experience.terminated | lost, truncated=experience.truncated & ~lost)
