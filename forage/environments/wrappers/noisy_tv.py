"""A noisy television: a part of the observation that is always new and has no meaning."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from forage.core.ports import State
from forage.core.types import ForageError, Step
from forage.environments.wrappers.base import (
    Wrapper,
    WrapperState,
    change_seen,
    environment_name,
    per_agent,
    seen_box,
    select_tree,
    without_one_hot,
)


class NoisyTV(Wrapper):
    """A television in the corner of the observation with a channel that the agent can change: `noisy-tv:SIZE:ACTION`.

    The first `size` by `size` entries of an image (all its channels), or the first `size` entries of a vector, show
    uniform random numbers within the space's bounds, whole ones if the space is of integers. They stay the same until
    action `channel`, which also keeps its own effect; -1 stands for the last action. With -2 the channel changes at
    every step, without any action. Each of several agents has a television of its own.

    An agent that seeks the unpredictable stays in front of it. The television hides a corner of the view, the same for
    every method.

    Source: Burda, Edwards, Pathak, Storkey, Darrell, Efros (2018), "Large-Scale Study of Curiosity-Driven Learning",
    arXiv 1808.04355, section 5; with the remote control as in Raileanu, Rocktaschel (2020), "RIDE: Rewarding
    Impact-Driven Exploration for Procedurally-Generated Environments", arXiv 2002.12292, section 5.
    """

    example: ClassVar[str] = "forage train ppo grid:MultiRoom-N4-S5 --rewards rnd --wrap noisy-tv:2"

    size: int = equinox.field(static=True, default=2)  # entries along each side
    channel: int = equinox.field(static=True, default=-1)  # action that changes it; -1: the last, -2: any step

    remembers = True

    def __check_init__(self):
        space, actions = seen_box(self), self.inner_spaces[1]
        if not space.is_bounded("both"):
            raise ForageError(
                f"A television shows numbers within bounds, and what {environment_name(self.environment)} shows has "
                f"none; "
                f"images and grids have."
            )
        if not 1 <= self.size <= min(space.shape[:2] if len(space.shape) > 1 else space.shape):
            raise ForageError(f"A television of size {self.size} does not fit into a view of shape {space.shape}.")
        if self.channel >= -1 and not isinstance(actions, gymnasium.spaces.Discrete):
            raise ForageError(
                f"One of numbered actions changes the channel, and {environment_name(self.environment)} has {actions}; "
                f"-2 changes it at every step."
            )
        if isinstance(actions, gymnasium.spaces.Discrete) and not -2 <= self.channel < int(actions.n):
            raise ForageError(
                f"There is no action {self.channel} to change the channel by; there are 0 to {int(actions.n) - 1}, "
                f"-1 for the last one, and -2 for every step."
            )

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return without_one_hot(self)

    def reset(self, key: Key[Array, ""]) -> tuple[State, PyTree[Array]]:
        state, observation = self.environment.reset(key)
        shown = per_agent(self, self.draw, self.own_key(key))
        return WrapperState(state, shown), self.show(observation, shown)

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[State, Step]:
        inner, step = self.environment.step(state.inner, action, key)
        drawn = per_agent(self, self.draw, self.own_key(key))
        shown = select_tree(self.changes(action), drawn, state.own)
        return WrapperState(inner, shown), step._replace(observation=self.show(step.observation, shown))

    def changes(self, action: PyTree[Array]) -> Array:
        """Return whether this action changes the channel."""
        actions = self.inner_spaces[1]
        if self.channel == -2 or not isinstance(actions, gymnasium.spaces.Discrete):
            return jnp.bool_(True)
        return action == (int(actions.n) - 1 if self.channel == -1 else self.channel)

    @property
    def corner(self) -> tuple[slice, ...]:
        return (slice(self.size),) * min(2, len(seen_box(self).shape))

    def draw(self, key: Key[Array, ""]) -> Array:
        """Draw a new picture of random numbers."""
        space = seen_box(self)
        low, high = (np.asarray(bound)[self.corner].astype(np.float32) for bound in (space.low, space.high))
        whole = not np.issubdtype(space.dtype, np.floating)
        drawn = low + jax.random.uniform(key, low.shape) * (high - low + whole)
        return jnp.asarray(jnp.minimum(jnp.floor(drawn), high) if whole else drawn, space.dtype)

    def show(self, observation: PyTree[Array], shown: Array) -> PyTree[Array]:
        rest = (slice(None),) * (len(seen_box(self).shape) - len(self.corner))
        return change_seen(observation, lambda seen: seen.at[(..., *self.corner, *rest)].set(shown))
