"""Gymnasium spaces, seen from JAX: examples, random samples, clipping, and what a network needs to know of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Key, PyTree

MASK = "action_mask"
"""An observation `{"observation": ..., "action_mask": ...}` says which discrete actions are allowed (non-zero)."""


def example(space: spaces.Space[Any]) -> PyTree[Array]:
    """Zeros with the shape and dtype of one element of `space`."""
    if isinstance(space, spaces.Dict):
        return {name: example(inner) for name, inner in space.items()}
    if isinstance(space, spaces.Discrete):
        return jnp.zeros((), jnp.int32)
    if isinstance(space, spaces.MultiDiscrete):
        return jnp.zeros(space.shape, jnp.int32)
    return jnp.zeros(space.shape, jax.dtypes.canonicalize_dtype(space.dtype))


def sample(space: spaces.Space[Any], key: Key[Array, ""], mask: Bool[Array, " actions"] | None = None) -> PyTree[Array]:
    """Draws a uniform element of an action space: discrete (where `mask` allows), multi-discrete or bounded box."""
    if isinstance(space, spaces.Discrete):
        if mask is None:
            return jax.random.randint(key, (), 0, int(space.n))
        return jnp.argmax(jnp.where(mask, jax.random.uniform(key, mask.shape), -1.0)).astype(jnp.int32)
    if isinstance(space, spaces.MultiDiscrete):
        if mask is None:
            return jax.random.randint(key, space.shape, 0, jnp.asarray(space.nvec))
        scores = jnp.where(mask, jax.random.uniform(key, mask.shape), -1.0)
        parts = jnp.split(scores, np.cumsum(space.nvec.reshape(-1))[:-1])
        return jnp.stack([jnp.argmax(part) for part in parts]).astype(jnp.int32)
    low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    return jax.random.uniform(key, space.shape, minval=low, maxval=high)


def clip(space: spaces.Space[Any], action: PyTree[Array]) -> PyTree[Array]:
    """Brings a continuous action into its box; other actions pass unchanged."""
    if isinstance(space, spaces.Box) and space.is_bounded("both"):
        return jnp.clip(action, jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32))
    return action


def split_mask(observation: PyTree[Array]) -> tuple[PyTree[Array], Bool[Array, " actions"] | None]:
    """Parts an observation into what is seen and which actions are allowed (`None`: all)."""
    if isinstance(observation, dict) and MASK in observation:
        return observation["observation"], observation[MASK] != 0
    return observation, None


def seen(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The space of what is seen, without the action mask."""
    return space["observation"] if isinstance(space, spaces.Dict) and MASK in space.keys() else space


def describe(space: spaces.Space[Any]) -> str:
    """A few words for messages: `Discrete(2)`, `Box(6,)`."""
    if isinstance(space, spaces.Box):
        return f"Box{tuple(space.shape)}"
    return str(space)
