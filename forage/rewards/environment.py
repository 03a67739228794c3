"""The environment's own reward."""

from __future__ import annotations

from typing import Any, ClassVar

from forage.core.ports import Rewards
from forage.core.types import Experience, ForageError, Spec


class EnvironmentReward(Rewards):
    """The environment's own reward, for environments with a single one."""

    example: ClassVar[str] = "forage train ppo CartPole-v1 --rewards environment"

    as_given: ClassVar[bool] = True

    def check(self, spec: Spec) -> None:
        if spec.reward_names:
            names = ", ".join(spec.reward_names)
            raise ForageError(
                f"{spec.name} gives several rewards ({names}) and agents learn from one; "
                f"say how to weigh them, as in --rewards weighted --rewards.names {','.join(spec.reward_names)} "
                f"--rewards.weights {','.join('1' * len(spec.reward_names))}."
            )

    def relabel(self, state: Any, experience: Experience) -> Experience:
        return experience
