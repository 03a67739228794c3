"""Running mean and variance, merged batch by batch."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree


class RunningNorm(NamedTuple):
    """Mean and variance of everything seen (Chan et al., 1983, parallel variance); `x` maps to (x - mean) / std."""

    count: Float[Array, ""]
    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> RunningNorm:
        """Starts as the identity and forgets that start with the first batch."""
        return cls(jnp.zeros(()), jnp.zeros(shape), jnp.ones(shape))

    def update(self, x: Float[Array, "batch *shape"]) -> RunningNorm:
        """Merges a batch: the result is the mean and variance of all rows ever given."""
        number = jnp.float32(x.shape[0])
        mean, variance = x.mean(0), x.var(0)
        total = self.count + number
        delta = mean - self.mean
        squares = self.variance * self.count + variance * number + delta**2 * self.count * number / total
        return RunningNorm(total, self.mean + delta * number / total, squares / total)

    def __call__(self, x: Float[Array, "*shape"], limit: float = 10.0) -> Float[Array, "*shape"]:
        return jnp.clip((x - self.mean) / jnp.sqrt(self.variance + 1e-8), -limit, limit)


def normalised(norm: RunningNorm | None, observation: PyTree[Array]) -> PyTree[Array]:
    """The observation, normalised where there is a `norm`; a mask beside it stays as it is."""
    if norm is None:
        return observation
    if isinstance(observation, dict):
        return observation | {"observation": norm(observation["observation"].astype(jnp.float32))}
    return norm(observation.astype(jnp.float32))
