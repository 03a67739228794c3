"""Batch renormalisation: batch normalisation whose running statistics count more and more.

Ioffe, Szegedy (2015), "Batch Normalization", arXiv 1502.03167; Ioffe (2017), "Batch Renormalization", arXiv 1702.03275,
algorithm 1. With mean m and deviation d of a batch, M and D of what was seen before, and constants r and s without a
gradient,

    taught    y = scale ((x - m) / d r + s) + offset,   r = clip(d / D, 1/3, 3),  s = clip((m - M) / D, -5, 5)
    acting    y = scale (x - M) / D + offset

and M and D^2 move by `rate` towards m and d^2 whenever a network is taught. For the first `warm_up` batches r is 1 and
s is 0, which is batch normalisation. After them CrossQ's authors add the small number to the batch's variance over r^2,
not to the variance: the same but where a batch hardly varies and r is far from 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

EPSILON = 1e-3  # added to variances, as in the code of CrossQ's authors
MOST_STRETCH, MOST_SHIFT = 3.0, 5.0  # bounds of r and s, likewise


class BatchStyle(NamedTuple):
    """The rule by which running statistics follow the batches."""

    rate: float = 0.01  # how far each batch moves them
    warm_up: int = 100_000  # batches before they count while a network is taught


class BatchNorm(equinox.Module):
    """Batch renormalisation of numbers side by side, with the running statistics that acting takes."""

    scale: Float[Array, " size"]
    offset: Float[Array, " size"]
    mean: Float[Array, " size"]  # running, and moved by `taught` alone, as the next two
    variance: Float[Array, " size"]
    batches: Float[Array, ""]  # that have been seen; exact up to 2^24, far beyond any warm-up
    style: BatchStyle = equinox.field(static=True)

    def __init__(self, size: int, style: BatchStyle = BatchStyle()):  # noqa: B008
        self.scale, self.offset = jnp.ones(size), jnp.zeros(size)
        self.mean, self.variance, self.batches = jnp.zeros(size), jnp.ones(size), jnp.zeros(())
        self.style = style

    def __call__(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """Normalise by the running statistics, which get no gradient."""
        mean, variance = jax.lax.stop_gradient((self.mean, self.variance))
        return self.scale * (x - mean) * jax.lax.rsqrt(variance + EPSILON) + self.offset

    def apply_in_training(
        self, x: Float[Array, "batch size"], counts: Bool[Array, " batch"]
    ) -> tuple[Float[Array, "batch size"], BatchNorm]:
        """Normalise by the batch's rows that count; also return the norm with its statistics moved."""
        number = counts.sum()
        share = counts / jnp.maximum(number, 1)
        mean = weighted_mean(share, x)
        variance = weighted_mean(share, (x - jax.lax.stop_gradient(mean)) ** 2)  # whose gradient by the mean is 0
        deviation, running = jnp.sqrt(variance + EPSILON), jnp.sqrt(self.variance + EPSILON)
        stretch = jnp.clip(deviation / running, 1 / MOST_STRETCH, MOST_STRETCH)
        shift = jnp.clip((mean - self.mean) / running, -MOST_SHIFT, MOST_SHIFT)
        warm = self.batches >= self.style.warm_up
        stretch, shift = jax.lax.stop_gradient((jnp.where(warm, stretch, 1.0), jnp.where(warm, shift, 0.0)))
        slope = self.scale * stretch / deviation
        y = affine(x, slope, self.scale * shift + self.offset - mean * slope)

        rate = jnp.where(number > 0, self.style.rate, 0.0)  # a batch of nothing moves nothing
        moved = (
            self.mean + rate * (mean - self.mean),
            self.variance + rate * (variance - self.variance),
            self.batches + (number > 0),
        )
        return y, with_numbers(self, jax.lax.stop_gradient(moved))


@jax.custom_vjp
def affine(
    x: Float[Array, "batch size"], slope: Float[Array, " size"], offset: Float[Array, " size"]
) -> Float[Array, "batch size"]:
    """Compute slope x + offset; the gradient sums rows as `averaged` does."""
    return x * slope + offset


def line_forward(x: Array, slope: Array, offset: Array) -> tuple[Array, tuple[Array, Array]]:
    return affine(x, slope, offset), (x, slope)


def line_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array, Array]:
    x, slope = kept
    ones = jnp.ones(len(x), x.dtype)
    return gradient * slope, weighted_mean(ones, gradient * x), weighted_mean(ones, gradient)


affine.defvjp(line_forward, line_backward)


@jax.custom_vjp
def weighted_mean(share: Float[Array, " batch"], x: Float[Array, "batch size"]) -> Float[Array, " size"]:
    """Compute the mean of rows by their shares, which get no gradient."""
    return product(share, x)


def averaged_forward(share: Array, x: Array) -> tuple[Array, Array]:
    return product(share, x), share


def averaged_backward(share: Array, gradient: Array) -> tuple[Array, Array]:
    return jnp.zeros_like(share), share[:, None] * gradient


weighted_mean.defvjp(averaged_forward, averaged_backward)


@jax.custom_batching.custom_vmap
def product(share: Float[Array, " batch"], x: Float[Array, "batch size"]) -> Float[Array, " size"]:
    """Sum rows by their shares: a product of matrices, as XLA's sums over rows are slow on CPUs."""
    return jnp.matmul(share[None], x, precision=jax.lax.Precision.HIGHEST)[0]


@product.def_vmap
def product_of_each(size: int, batched: list[bool], share: Array, x: Array) -> tuple[Array, bool]:
    """Give each of several networks shares of its own: those of all at once would need their rows side by side."""
    share, x = (
        value if own else jax.lax.optimization_barrier(jnp.broadcast_to(value, (size, *value.shape)))
        for own, value in zip(batched, (share, x), strict=True)
    )
    return jnp.matmul(share[:, None], x, precision=jax.lax.Precision.HIGHEST)[:, 0], True


def statistics(norm: BatchNorm) -> tuple[Array, Array, Array]:
    return norm.mean, norm.variance, norm.batches


def with_numbers(norm: BatchNorm, numbers: tuple[Array, Array, Array]) -> BatchNorm:
    """Return the norm with other statistics."""
    return equinox.tree_at(statistics, norm, numbers)


def with_statistics(network: Any, taught: Any) -> Any:
    """Return the network with the running statistics of `taught`, in place of those changed by an optimiser."""

    def one(mine: Any, theirs: Any) -> Any:
        return with_numbers(mine, statistics(theirs)) if isinstance(mine, BatchNorm) else mine

    return jax.tree.map(one, network, taught, is_leaf=lambda part: isinstance(part, BatchNorm))
