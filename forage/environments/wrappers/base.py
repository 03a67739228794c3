"""The base class of wrappers, and functions they share."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.core import spaces
from forage.core.fields import layers
from forage.core.plain import dumps
from forage.core.ports import Environment, State
from forage.core.types import ForageError, Step

SALT = 5_200_001
"""Salt that keeps a wrapper's random numbers apart from those of the environment inside."""


class WrapperState(NamedTuple):
    """The state of a wrapper with a memory."""

    inner: State  # of the environment inside
    own: PyTree[Array]  # what the wrapper remembers


class Wrapper(Environment):
    """An environment made of another one, with the inner environment's behaviour unless a subclass changes it.

    A subclass overrides `observe`, or `reset` and `step`. A subclass with a state of its own sets `remembers`, and its
    states are `WrapperState`s. It draws its random numbers from `own_key`; the inner environment gets the original key,
    so that a wrapper without effect leaves every episode bit for bit the same.
    """

    environment: Environment
    inside: str = equinox.field(static=True, init=False, repr=False)  # the spaces of the environment, as JSON

    remembers: ClassVar[bool] = False
    """States are `WrapperState`s."""

    changes_reward: ClassVar[bool] = False
    """Whether the reward of a step differs from that of the environment inside."""

    def __post_init__(self):
        # Spaces may follow from fields, and fields are not known while a program is traced: what a step needs of them
        # is kept from when the wrapper is made.
        kept = (self.environment.observation_space, self.environment.action_space)
        self.inside = dumps([spaces.to_json(space) for space in kept])

    @property
    def inner_spaces(self) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
        """Return the observation and the action space of the environment inside at the time of wrapping."""
        return restore_spaces(self.inside)

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return self.environment.observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self.environment.action_space

    @property
    def reward_names(self) -> tuple[str, ...]:
        return self.environment.reward_names

    @property
    def num_agents(self) -> int:
        return getattr(self.environment, "num_agents", 1)

    @property
    def frames_per_second(self) -> float | None:
        return self.environment.frames_per_second

    @property
    def horizon(self) -> int | None:
        return self.environment.horizon

    @property
    def reward_range(self) -> tuple[float, float] | None:
        return None if self.changes_reward else self.environment.reward_range

    @property
    def return_range(self) -> tuple[float, float] | None:
        """Return the range of the environment inside, and that of the steps that this one leaves to an episode."""
        inner = None if self.changes_reward else self.environment.return_range
        steps = super().return_range
        if inner is None or steps is None:
            return inner or steps
        return max(inner[0], steps[0]), min(inner[1], steps[1])

    @property
    def info_names(self) -> tuple[str, ...]:
        return self.environment.info_names

    @property
    def competitive(self) -> bool:
        return self.environment.competitive

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the inner environment, such as the levels needed by a tasks part."""
        if name.startswith("_") or name == "environment":
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        return getattr(self.environment, name)

    def reset(self, key: Key[Array, ""]) -> tuple[State, PyTree[Array]]:
        state, observation = self.environment.reset(key)
        return state, self.observe(observation)

    def step(self, state: State, action: PyTree[Array], key: Key[Array, ""]) -> tuple[State, Step]:
        state, step = self.environment.step(state, action, key)
        return state, step._replace(observation=self.observe(step.observation))

    def observe(self, observation: PyTree[Array]) -> PyTree[Array]:
        """Return the observation in place of the inner environment's, for wrappers that need no more than that."""
        return observation

    @property
    def map_shape(self) -> tuple[int, ...] | None:
        return self.environment.map_shape

    def map_position(self, state: State) -> Int[Array, ""]:
        return self.environment.map_position(state.inner if self.remembers else state)

    def reachable(self) -> Any:
        return self.environment.reachable()

    def render(self, state: State) -> Any:
        return self.environment.render(state.inner if self.remembers else state)

    def own_key(self, key: Key[Array, ""]) -> Key[Array, ""]:
        """Return a key for this wrapper alone, different for each layer and from the inner environment's key."""
        return jax.random.fold_in(key, SALT + len(layers(self)))


@functools.cache
def restore_spaces(inside: str) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Return the spaces that a wrapper keeps as JSON."""
    observation, action = (spaces.from_json(space) for space in json.loads(inside))
    return observation, action


def environment_name(environment: Environment) -> str:
    return type(environment).__name__


def flat_box(wrapper: Wrapper) -> gymnasium.spaces.Box:
    """Return the inner environment's observation space. Raise `ForageError` if it is no vector."""
    space = wrapper.environment.observation_space
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
        raise ForageError(
            f"{environment_name(wrapper)} needs a flat Box observation; {environment_name(wrapper.environment)} has "
            f"{space}. "
            f"CartPole's, for one, would work."
        )
    return space


def seen_box(wrapper: Wrapper, ranks: tuple[int, ...] = ()) -> gymnasium.spaces.Box:
    """Return the box of the inner observation, without mask or other entries; `ForageError` for another rank."""
    space = spaces.observation_part(wrapper.inner_spaces[0])
    if not isinstance(space, gymnasium.spaces.Box) or (ranks and len(space.shape) not in ranks):
        shown = " or ".join(f"{rank}" for rank in ranks)
        wanted = f"a Box observation with {shown} axes" if ranks else "a Box observation"
        raise ForageError(
            f"{environment_name(wrapper)} needs {wanted}; {environment_name(wrapper.environment)} has {space}."
        )
    return space


def with_seen_space(space: gymnasium.Space[Any], box: gymnasium.spaces.Box) -> gymnasium.Space[Any]:
    """Return the observation space with `box` as the observation, and the mask and other entries unchanged."""
    if isinstance(space, gymnasium.spaces.Dict) and spaces.carries_more(space.spaces):
        return gymnasium.spaces.Dict({**space.spaces, "observation": box})
    return box


def without_one_hot(wrapper: Wrapper) -> gymnasium.Space[Any]:
    """Return the inner environment's observation space, with a plain box in place of one-hot vectors."""
    space = wrapper.environment.observation_space
    seen = spaces.observation_part(space)
    if not isinstance(seen, spaces.OneHot):
        return space
    return with_seen_space(space, gymnasium.spaces.Box(seen.low, seen.high, dtype=np.float32))


def change_seen(observation: PyTree[Array], change: Callable[[Array], Array]) -> PyTree[Array]:
    """Apply `change` to the observation, and leave the mask and other entries unchanged."""
    if isinstance(observation, dict) and spaces.carries_more(observation):
        return {**observation, "observation": change(observation["observation"])}
    return change(observation)


def select_tree(flag: Bool[Array, "*agent"], yes: PyTree[Array], no: PyTree[Array]) -> PyTree[Array]:
    """Choose one of two trees of the same shapes; with a flag for each agent, one for each, by the leaves'
    first axis.
    """

    def select(a: Array, b: Array) -> Array:
        return jnp.where(jnp.expand_dims(flag, tuple(range(jnp.ndim(flag), jnp.ndim(a)))), a, b)

    return jax.tree.map(select, yes, no)


def smaller_limit(first: Any, second: Any) -> Any:
    """Return the smaller of two limits; `None` is no limit. Either may be traced."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, int) and isinstance(second, int):
        return min(first, second)
    return jnp.minimum(first, second)


def zero_action(wrapper: Wrapper) -> PyTree[Array]:
    """Return the neutral action: 0, clipped to the space's bounds."""
    space = wrapper.inner_spaces[1]
    return per_agent(wrapper, lambda _: spaces.clip(space, spaces.example(space)), None)


def per_agent(wrapper: Wrapper, make: Callable[[Any], PyTree[Array]], key: Any) -> PyTree[Array]:
    """Return `make(key)`, or one of it per agent if there are several."""
    agents = wrapper.num_agents
    if agents == 1:
        return make(key)
    keys = None if key is None else jax.random.split(key, agents)
    return jax.vmap(make, in_axes=None if key is None else 0, axis_size=agents)(keys)


def check_share(wrapper: Wrapper, name: str, value: Any) -> None:
    """Raise `ForageError` for a number that is no probability. Traced values are not checked."""
    if isinstance(value, (int, float)) and not 0 <= value <= 1:
        raise ForageError(f"{environment_name(wrapper)}'s {name} is a probability, from 0 to 1, not {value:g}.")


def check_least(wrapper: Wrapper, name: str, value: Any, low: float) -> None:
    """Raise `ForageError` for a number below `low`, or NaN. Traced values are not checked."""
    if isinstance(value, (int, float)) and not value >= low:
        raise ForageError(f"{environment_name(wrapper)}'s {name} is {low:g} or more, not {value:g}.")


def check_entries(wrapper: Wrapper, use: str, entries: Sequence[int], size: int) -> None:
    """Raise `ForageError` for entries that an observation of this size does not have, or if there are none to use."""
    outside = [entry for entry in entries if not 0 <= entry < size]
    if outside or not entries:
        which = f"entry {outside[0]}" if outside else "no entry at all"
        raise ForageError(
            f"{environment_name(wrapper)} cannot {use} {which} of {environment_name(wrapper.environment)}'s "
            f"observation; it has entries 0 to {size - 1}."
        )
