"""A memory of only the last rollout."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from forage.core.ports import ActContext, Environment, Memory
from forage.core.types import Batch, Clock, Experience, Spec


class LastRollout(Memory):
    """The last rollout, for on-policy agents: one segment for each environment, as long as the rollout.

    Nothing is kept once it was learned from, so a run carries and saves no rollout that nobody reads again.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --memory rollout"

    on_policy: ClassVar[bool] = True
    joint: ClassVar[bool] = True

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> tuple[()]:
        return ()

    def add(self, state: tuple[()], rollout: Experience, clock: Clock) -> Experience:
        return rollout

    def sample(self, state: Experience, size: int, length: int, moment: ActContext) -> Batch:
        num_envs = state.reward.shape[1]
        return Batch(state, jnp.ones(num_envs), jnp.arange(num_envs))

    def after_updates(self, state: Experience) -> tuple[()]:
        return ()
