"""Environments made of another environment: hide some of what it shows, or show what it hides."""

from __future__ import annotations

from typing import Any

import equinox
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from forage.fields import depth_of, replace, value_of
from forage.ports import Environment, State
from forage.types import ForageError, Step


def with_fields(environment: Environment, /, **values: Any) -> Environment:
    """Returns the environment with the named fields replaced, looking through wrappers.

    `with_fields(Masked(CartPole(), (0, 2)), length=1.0)` is the same wrapper around a longer pole.
    A value may be an array; one with a leading axis makes a batch for `vmap`. Where a wrapper and what it
    wraps share a name, the innermost is meant.
    Raises `ForageError` for a field that is not there or is static, naming the nearest ones.
    """
    for name, value in values.items():
        environment = replace(environment, environment, name, value)
    return environment


class Masked(Environment):
    """Keeps only the listed entries of a flat observation.

    Hiding the velocities makes a task that only memory solves: `Masked(CartPole(), (0, 2))`.
    """

    environment: Environment
    indices: tuple[int, ...] = equinox.field(static=True, converter=tuple)

    def __check_init__(self):
        size = _flat_box(self, self.environment).shape[0]
        outside = [index for index in self.indices if not 0 <= index < size]
        if outside or not self.indices:
            what = f"entry {outside[0]}" if outside else "no entry at all"
            raise ForageError(
                f"Masked cannot keep {what} of {_name(self.environment)}'s observation; it has entries 0 to {size - 1}."
            )

    @property
    def reward_names(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.environment.reward_names

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        space = _flat_box(self, self.environment)
        kept = np.array(self.indices)
        return gymnasium.spaces.Box(space.low[kept], space.high[kept], dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self.environment.action_space

    @property
    def horizon(self) -> int | None:
        return self.environment.horizon

    def reset(self, key: Key[Array, ""]) -> tuple[State, Float[Array, " kept"]]:
        state, observation = self.environment.reset(key)
        return state, self._keep(observation)

    def step(self, state: State, action: PyTree[Array], key: Key[Array, ""]) -> tuple[State, Step]:
        state, step = self.environment.step(state, action, key)
        return state, step._replace(observation=self._keep(step.observation))

    def _keep(self, observation: Float[Array, " all"]) -> Float[Array, " kept"]:
        return observation[np.array(self.indices)]

    def render(self, state: State) -> Any:
        return self.environment.render(state)


class ContextVisible(Environment):
    """Appends chosen numeric fields of the wrapped environment to its flat observation.

    Field c is shown as `2 (c - low) / (high - low) - 1`: -1 at `low`, 1 at `high`, beyond them outside.
    With this an agent can see the physics it is in, which a contextual or randomised task otherwise hides.

    Source: Benjamins et al. (2023), "Contextualize me: the case for context in reinforcement learning"
    (arXiv 2202.04500).
    """

    environment: Environment
    fields: tuple[str, ...] = equinox.field(static=True, converter=tuple)
    low: tuple[float, ...] = equinox.field(static=True, converter=tuple)
    high: tuple[float, ...] = equinox.field(static=True, converter=tuple)

    def __check_init__(self):
        _flat_box(self, self.environment)
        if not len(self.fields) == len(self.low) == len(self.high):
            raise ForageError(
                f"ContextVisible needs one low and one high for each field; "
                f"got {len(self.fields)} fields, {len(self.low)} lows and {len(self.high)} highs."
            )
        for name, low, high in zip(self.fields, self.low, self.high, strict=True):
            depth_of(self.environment, name)
            if not low < high:
                raise ForageError(f"ContextVisible needs low < high for {name}; got {low} and {high}.")

    @property
    def reward_names(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.environment.reward_names

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        space = _flat_box(self, self.environment)
        # A context may leave the range it is scaled by.
        unbounded = np.full(len(self.fields), np.inf, np.float32)
        return gymnasium.spaces.Box(
            np.concatenate([space.low, -unbounded]), np.concatenate([space.high, unbounded]), dtype=np.float32
        )

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self.environment.action_space

    @property
    def horizon(self) -> int | None:
        return self.environment.horizon

    def reset(self, key: Key[Array, ""]) -> tuple[State, Float[Array, " all"]]:
        state, observation = self.environment.reset(key)
        return state, self._append(observation)

    def step(self, state: State, action: PyTree[Array], key: Key[Array, ""]) -> tuple[State, Step]:
        state, step = self.environment.step(state, action, key)
        return state, step._replace(observation=self._append(step.observation))

    def _append(self, observation: Float[Array, " seen"]) -> Float[Array, " all"]:
        context = []
        for name, low, high in zip(self.fields, self.low, self.high, strict=True):
            value = jnp.asarray(value_of(self.environment, name), jnp.float32)
            if value.ndim:
                raise ForageError(
                    f"ContextVisible shows single numbers, and {name} has shape {value.shape}; "
                    f"a batch of environments goes under vmap."
                )
            context.append(2 * (value - low) / (high - low) - 1)
        return jnp.concatenate([observation, jnp.stack(context)]) if context else observation

    def render(self, state: State) -> Any:
        return self.environment.render(state)


def _flat_box(wrapper: Environment, environment: Environment) -> gymnasium.spaces.Box:
    space = environment.observation_space
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
        raise ForageError(
            f"{_name(wrapper)} needs a flat Box observation; {_name(environment)} has {space}. "
            f"CartPole's, for one, would work."
        )
    return space


def _name(environment: Environment) -> str:
    return type(environment).__name__
