"""Observations as rows of floats, which is how bonuses see them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, PyTree

from forage.spaces import describe, seen, split_mask
from forage.types import ForageError, Spec


def row_shape(who: str, spec: Spec) -> tuple[int, ...]:
    """The shape of an observation as a row of floats. Raises `ForageError` for what is no box, image or number."""
    space = seen(spec.observation_space)
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if not isinstance(space, spaces.Box):
        raise ForageError(f"{who} sees boxes, images and numbers; {spec.name} gives {describe(space)}; flatten it.")
    return space.shape


def as_rows(shape: tuple[int, ...], observation: PyTree[Array]) -> Float[Array, "row ..."]:
    """What is seen (leaves `time batch ...`), as one row of floats each; a discrete observation as one-hot."""
    observation, _ = split_mask(observation)
    if observation.ndim - 2 < len(shape):
        observation = jax.nn.one_hot(observation, shape[0])
    return observation.reshape(-1, *shape).astype(jnp.float32)
