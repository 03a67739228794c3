"""A rollout as tasks and starts see it."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Key, PyTree

from forage.core.ports.environment import Environment
from forage.core.ports.part import State, ValueEstimates
from forage.core.types import Clock


class RolloutStates(NamedTuple):
    """The states that a rollout (leaves `time env ...`) visited.

    With `Starts.every_state`, `env_states` and `gone` are `time env ...`: the state that each step led to, also where
    the episode ended there, so its observation is `rollout.next_observation`. Otherwise they are `1 env ...`: where the
    environments stand after the rollout, which is a fresh start, and `gone`, where `rollout.ended[-1]`.
    """

    env_states: State
    start_ids: PyTree[Array]  # leaves `time env ...`: the identifier of the start of each step's episode
    gone: Bool[Array, "time env"]  # nothing goes on from there: the episode ended by itself, not only by `cut`
    fresh: Bool[Array, " env"]  # the rollout's first step began an episode
    tasks: PyTree[Array | None] = None  # leaves `time env ...`: the task of the episode that each step belongs to

    def begins(self, ended: Bool[Array, "time env"]) -> Bool[Array, "time env"]:
        """Return the mask of each episode's first step, for a rollout whose episodes `ended` there."""
        return jnp.concatenate([self.fresh[None], ended[:-1]])


class RolloutReport(NamedTuple):
    """The context of a rollout for tasks and starts: all they may know besides its transitions."""

    environment: Environment
    visited: RolloutStates
    clock: Clock  # as it read when the rollout began
    key: Key[Array, ""]
    estimates: ValueEstimates | None = None  # for a part with `needs_estimates`
