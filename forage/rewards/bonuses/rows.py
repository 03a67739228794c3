"""Observations as rows of floats, the input of bonuses."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, PyTree

from forage.core.spaces import observation_part, split_mask
from forage.core.types import GONE, NOBODY, Experience, Spec
from forage.nn.embedding import LIMIT
from forage.nn.normalise import RunningNorm


def row_shape(spec: Spec) -> tuple[int, ...]:
    """Return the shape of an observation, a box or a number, as a row of floats."""
    space = observation_part(spec.observation_space)
    return (int(space.n),) if isinstance(space, spaces.Discrete) else tuple(space.shape or ())


def as_rows(shape: tuple[int, ...], observation: PyTree[Array]) -> Float[Array, "row ..."]:
    """Return observations (leaves `time batch ...`) as one row of floats each; a discrete one is one-hot."""
    observation, _ = split_mask(observation)
    if observation.ndim - 2 < len(shape):
        observation = jax.nn.one_hot(observation, shape[0])
    return observation.reshape(-1, *shape).astype(jnp.float32)


class Transitions(NamedTuple):
    """Transitions, one row each."""

    observation: Float[Array, "row ..."]
    action: Array
    next_observation: Float[Array, "row ..."]
    weight: Float[Array, " row"]  # 0 where the action was not heard or the agent had left, else 1


def as_transitions(norm: RunningNorm, experience: Experience) -> Transitions:
    """Return transitions (leaves `time batch ...`) as rows, observations normalised and clipped to plus or minus 5."""
    now, after = (
        norm(as_rows(norm.mean.shape, seen), LIMIT) for seen in (experience.observation, experience.next_observation)
    )
    heard = (experience.source != NOBODY) & (experience.source != GONE)
    return Transitions(
        now,
        experience.action.reshape(len(now), *experience.action.shape[2:]),
        after,
        heard.reshape(-1).astype(jnp.float32),
    )
