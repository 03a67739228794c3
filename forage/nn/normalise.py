"""Running mean and variance, merged batch by batch."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, PyTree

from forage.core.spaces import carries_more, is_open, is_read_raw, observation_part, split_mask
from forage.core.types import Experience, ForageError, Spec
from forage.nn.encoders import is_image
from forage.nn.layers import is_large


class RunningNorm(NamedTuple):
    """Mean and variance of all inputs so far (Chan et al., 1983, parallel variance); `x` maps to (x - mean) / std."""

    count: Float[Array, ""]
    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]

    @classmethod
    def from_shape(cls, shape: tuple[int, ...]) -> RunningNorm:
        """Start as the identity and forget that start with the first batch."""
        return cls(jnp.zeros(()), jnp.zeros(shape), jnp.ones(shape))

    def update(self, x: Float[Array, "batch *shape"], counts: Bool[Array, " batch"] | None = None) -> RunningNorm:
        """Merge a batch: the result is the mean and variance of all rows ever given, but those that do not count."""
        counts = jnp.ones(x.shape[0], bool) if counts is None else counts
        rows = counts.reshape(-1, *(1,) * (x.ndim - 1))
        number = counts.sum().astype(jnp.float32)
        some = jnp.maximum(number, 1.0)
        mean = jnp.where(rows, x, 0.0).sum(0) / some
        variance = jnp.where(rows, (x - mean) ** 2, 0.0).sum(0) / some
        total = self.count + number
        share = number / jnp.maximum(total, 1.0)
        delta = mean - self.mean
        spread = self.variance + share * (variance - self.variance) + delta**2 * share * (1 - share)
        return RunningNorm(total, self.mean + share * delta, spread)

    def __call__(self, x: Float[Array, "*shape"], limit: float = 10.0) -> Float[Array, "*shape"]:
        return jnp.clip((x - self.mean) / jnp.sqrt(self.variance + 1e-8), -limit, limit)


Norms = RunningNorm | None | dict[str, Any]
"""The norm of a box, or one for each box of a dictionary, and `None` for parts that are not normalised."""


def norms_of(space: spaces.Space[Any], maps: bool = False) -> Norms:
    """Return norms for observations of `space` (without its mask): for the boxes that networks see as they are.

    Bits need none, and whole numbers with bounds are scaled by them (`forage.core.spaces.scale_of`), unless some beside
    them have none. With `maps` that goes for pictures of a screen alone. Small ones of bytes are maps, which name
    things by numbers far below 255: they are read normalised, as one vector, by a network that is made for `read_after`
    of the space.
    """
    if isinstance(space, spaces.Dict):
        norms = {name: norms_of(part, maps) for name, part in space.items()}
        return norms if any(norm is not None for norm in norms.values()) else None
    if not isinstance(space, spaces.Box) or space.dtype.kind not in "fiu" or 0 in space.shape:
        return None
    if maps and is_map(space):
        return RunningNorm.from_shape((math.prod(space.shape),))
    return RunningNorm.from_shape(space.shape) if is_read_raw(space) or is_open(space) else None


def norms_for(spec: Spec, wanted: bool) -> Norms:
    """Return the norms of an agent's observations before it has seen any; `None` if they are not `wanted`.

    Raise `ForageError` if nothing that is seen can be normalised.
    """
    norms = norms_of(observation_part(spec.observation_space), maps=True) if wanted else None
    if wanted and norms is None:
        raise ForageError(
            f"Only numbers can be normalised, not bits, choices or whole numbers with bounds, and {spec.name} "
            f"gives {spec.observation_space}; normalise_observation=false works."
        )
    return norms


def is_map(space: spaces.Space[Any]) -> bool:
    """Return whether a space is a picture of bytes too small for a screen: rows, columns and a few codes each."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return False
    return is_image(space) and space.dtype == np.uint8 and not is_large(space)


def input_space(space: spaces.Space[Any], norm: Norms) -> spaces.Space[Any]:
    """Return the space of a network's inputs from `space` after `norm`: floats without bounds if there is one.

    A map is a vector there: in MiniGrid's DoorKey-5x5, seen as 7 x 7 cells of three codes, PPO's mean return over three
    seeds after 60,000 steps is 0.96 with one, and 0.29 with convolutions.
    """
    if norm is None:
        return space
    if isinstance(space, spaces.Dict):
        if carries_more(space.spaces):
            return spaces.Dict(space.spaces | {"observation": input_space(space["observation"], norm)})
        assert isinstance(norm, dict)
        return spaces.Dict({name: input_space(part, norm[name]) for name, part in space.items()})
    assert isinstance(norm, RunningNorm)
    return spaces.Box(-np.inf, np.inf, norm.mean.shape, np.float32)


def normalised_spec(spec: Spec, wanted: bool) -> Spec:
    """Return the spec that networks get, with normalised observations if they are `wanted`."""
    return dataclasses.replace(spec, observation_space=input_space(spec.observation_space, norms_for(spec, wanted)))


def first_statistics(norm: Norms, after: Norms) -> Norms:
    """Return `norm`, or `after` if `norm` is still empty, so that the first rollout is normalised by its own
    statistics.
    """
    if norm is None:
        return None
    if isinstance(norm, dict):
        assert isinstance(after, dict)
        return {name: first_statistics(part, after[name]) for name, part in norm.items()}
    return jax.tree.map(lambda old, new: jnp.where(norm.count == 0, new, old), norm, after)


def apply_norm(norm: Norms, observation: PyTree[Array]) -> PyTree[Array]:
    """Return the observation, normalised if there is a `norm`; further entries, such as a mask, are unchanged."""
    if norm is None:
        return observation
    if isinstance(observation, dict) and carries_more(observation):
        return observation | {"observation": apply_norm(norm, observation["observation"])}
    if isinstance(norm, dict):
        return {name: apply_norm(norm[name], part) for name, part in observation.items()}
    return norm(jnp.asarray(observation).astype(jnp.float32).reshape(norm.mean.shape))


def update_norms(norm: Norms, observation: PyTree[Array], counts: Bool[Array, "time env"]) -> Norms:
    """Return the norms after a rollout of observations (leaves `time env ...`, without the mask); only those with
    `counts` are included.
    """
    if norm is None:
        return None
    if isinstance(norm, dict):
        return {name: update_norms(part, observation[name], counts) for name, part in norm.items()}
    return norm.update(observation.reshape(-1, *norm.mean.shape).astype(jnp.float32), counts.reshape(-1))


def fit_norms(norm: Norms, data: Experience) -> Norms:
    """Return the norms with the mean and variance of a data set's observations (leaves `transition ...`)."""
    seen = jax.tree.map(lambda x: x[None], split_mask(data.observation)[0])
    return update_norms(norm, seen, jnp.ones((1, len(data.reward)), bool))


def normalise_transitions(norm: Norms, now: Experience) -> Experience:
    """Return transitions (leaves `batch ...`) as networks read them: memories keep observations raw."""
    if norm is None:
        return now
    both = now.observation, now.next_observation
    observation, next_observation = jax.vmap(lambda both: tuple(apply_norm(norm, o) for o in both))(both)
    return now._replace(observation=observation, next_observation=next_observation)
