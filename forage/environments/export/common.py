"""Shared code of the exports: starts and steps of an episode from a key, and conversion of values to NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt8

from forage.core import prng, spaces
from forage.core.fields import layers
from forage.core.host import array_dtype
from forage.core.ports import Environment
from forage.core.types import ForageError, Step


class Motion:
    """Reset and step of an environment as functions of a key; both also return the next key. Not compiled yet."""

    def __init__(self, environment: Environment):
        self.environment = environment

    def begin(self, key: Key[Array, ""]) -> tuple[Key[Array, ""], Any, PyTree[Array]]:
        """Return `(key, state, observation)` at the start of an episode."""
        key, start = jax.random.split(key)
        state, observation = self.environment.reset(start)
        return key, state, observation

    def move(self, key: Key[Array, ""], state: Any, action: PyTree[Array]) -> tuple[Key[Array, ""], Any, Step]:
        """Return `(key, state, step)` after one action."""
        key, now = jax.random.split(key)
        state, step = self.environment.step(state, spaces.clip(self.environment.action_space, action), now)
        return key, state, step


def key_of(seed: int) -> Key[Array, ""]:
    """Return the key of a seed, on the CPU, so that computations from it stay there."""
    return jax.device_put(prng.key(int(seed) % 2**32), jax.local_devices(backend="cpu")[0])


def outside(tree: PyTree[Array]) -> PyTree[np.ndarray]:
    """Return new NumPy arrays, so that the caller may write to them."""
    return jax.tree.map(np.array, tree)


def to_space_dtype(space: gymnasium.Space[Any], observation: PyTree[Array]) -> PyTree[np.ndarray]:
    """Return an observation, or a batch of them, in the dtypes of its space; a single number is one, as Gymnasium has
    it.
    """
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: to_space_dtype(part, observation[name]) for name, part in space.items()}
    return np.array(observation, space.dtype)[()]


def convert_action(name: str, space: gymnasium.Space[Any], action: Any, batch: tuple[int, ...] = ()) -> Any:
    """Return an action, or a batch of them, as the environment takes it. Raise `ForageError` if it is none."""
    if isinstance(space, gymnasium.spaces.Dict):
        if not isinstance(action, Mapping) or action.keys() != space.spaces.keys():
            raise ForageError(f"{name} takes actions in {space}, not {action}.")
        return {key: convert_action(f"{name}: {key}", part, action[key], batch) for key, part in space.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        if not isinstance(action, tuple | list) or len(action) != len(space.spaces):
            raise ForageError(f"{name} takes actions in {space}, not {action}.")
        return tuple(convert_action(name, part, own, batch) for part, own in zip(space.spaces, action, strict=True))
    try:
        values = np.asarray(action)
    except ValueError:
        values = np.empty(0, object)
    wanted = (*batch, *(space.shape or ()))
    discrete = isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete)
    if values.shape != wanted or values.dtype.kind not in ("iu" if discrete else "iufb"):
        found = f"{values.dtype}{list(values.shape)}"
        raise ForageError(f"{name} takes actions in {space}, here {list(wanted)}, not {found}.")
    if discrete:
        start = np.asarray(space.start)
        number = space.n if isinstance(space, gymnasium.spaces.Discrete) else space.nvec
        if (values < start).any() or (values >= start + number).any():
            raise ForageError(f"{name} takes actions in {space}, not {action}.")
    elif values.dtype.kind == "f" and np.isnan(values).any():
        raise ForageError(f"{name} cannot take an action that is NaN: {action}.")
    return values.astype(array_dtype(space))


def reward_space(environment: Environment) -> gymnasium.spaces.Box:
    """Return the space of a vector reward, as MO-Gymnasium's environments have it."""
    return gymnasium.spaces.Box(-np.inf, np.inf, (len(environment.reward_names),), np.float32)


def render_modes(environment: Environment) -> list[str]:
    """Return `["rgb_array"]` for an environment with pictures, else an empty list."""
    inner = layers(environment)[-1]
    return ["rgb_array"] if type(inner).render is not Environment.render else []


def check_render_mode(name: str, environment: Environment, render_mode: str | None) -> None:
    """Raise `ForageError` if the environment cannot be drawn so."""
    modes = render_modes(environment)
    if render_mode is not None and render_mode not in modes:
        can = f"it has {modes[0]}" if modes else "it cannot be drawn"
        raise ForageError(f"{name} has no render mode {render_mode}; {can}.")


def draw_state(environment: Environment, state: Any) -> UInt8[np.ndarray, "height width 3"]:
    """Return one state as an image."""
    return np.asarray(environment.render(state), np.uint8)
