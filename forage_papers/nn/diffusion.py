"""Denoising diffusion of vectors: a network that finds data in noise, little by little, given a state.

Ho, Jain, Abbeel (2020), "Denoising Diffusion Probabilistic Models", arXiv 2006.11239. With b_t even from 1e-4 to 0.02
for t = 1 ... T, a_t = 1 - b_t and A_t the product of the first t of them, data x_0 are told noisy as

    x_t = sqrt(A_t) x_0 + sqrt(1 - A_t) e,   e standard normal

and the network says x_0 again, d(x_t, t, s), by steps down mean min(A_t / (1 - A_t), 5) (d - x_0)^2 (Hang, Gu, Li, Bao,
Chen, Hu, Geng, Guo, 2023, "Efficient Diffusion Training via Min-SNR Weighting Strategy", arXiv 2303.09556). Noise is
carried to data by t = T ... 1 of

    x_{t-1} = (x_t - b_t n / sqrt(1 - A_t)) / sqrt(a_t) + sqrt(b_t) z,   n = (x_t - sqrt(A_t) d) / sqrt(1 - A_t)

z standard normal, but none at t = 1, which is repeated `extra` times. Schedule, weights and network are those of the
program of latent diffusion skills (ldcq/ldcq: models/diffusion_models.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from forage.nn.layers import Linear, Norm

FIRST, LAST = 1e-4, 0.02  # of the noise that a step adds
MOST_WEIGHT = 5.0  # of a step's signal over its noise
CODE, WIDE = 128, 256  # numbers that a time is told in, and that time and state are made into

Field = Callable[[Float[Array, "batch size"], Int[Array, " batch"]], Float[Array, "batch size"]]
"""The denoised form of noisy vectors at these steps."""


def signal_shares(steps: int) -> tuple[Float[Array, " steps"], Float[Array, " steps"]]:
    """Return a_t and A_t, t = 1 first."""
    each = 1 - jnp.linspace(FIRST, LAST, steps)
    return each, jnp.cumprod(each)


def denoising_error(
    field: Field, data: Float[Array, "batch size"], key: Key[Array, ""], steps: int
) -> Float[Array, " batch"]:
    """Compute the weighted mean squared error of the denoiser at a random noise level."""
    time_key, noise_key = jax.random.split(key)
    time = jax.random.randint(time_key, (len(data),), 1, steps + 1)
    share = signal_shares(steps)[1][time - 1][:, None]
    noisy = jnp.sqrt(share) * data + jnp.sqrt(1 - share) * jax.random.normal(noise_key, data.shape)
    weight = jnp.minimum(share / (1 - share), MOST_WEIGHT)
    return jnp.mean(weight * (field(noisy, time) - data) ** 2, axis=-1)


def denoise(
    field: Field, key: Key[Array, ""], shape: tuple[int, int], steps: int, extra: int = 0, wanted: Array | bool = True
) -> Float[Array, "batch size"]:
    """Carry standard normal vectors to data; unless `wanted`, take no step."""
    each, all_kept = signal_shares(steps)
    first_key, key = jax.random.split(key)

    def step(i: Int[Array, ""], x: Float[Array, "batch size"]) -> Float[Array, "batch size"]:
        time = jnp.maximum(steps - i, 1)
        one, share = each[time - 1], all_kept[time - 1]
        found = field(x, jnp.full(len(x), time))
        noise = (x - jnp.sqrt(share) * found) / jnp.sqrt(1 - share)
        drawn = jnp.where(time > 1, jax.random.normal(jax.random.fold_in(key, i), x.shape), 0.0)
        return (x - (1 - one) * noise / jnp.sqrt(1 - share)) / jnp.sqrt(one) + jnp.sqrt(1 - one) * drawn

    number = jnp.where(wanted, steps + extra, 0)
    return jax.lax.fori_loop(0, number, step, jax.random.normal(first_key, shape))


class SharedBlock(equinox.Module):
    """One residual block: embeddings of time and state are added to its hidden layer."""

    time: Linear
    state: Linear
    first: Linear
    second: Linear
    norm: Norm

    def __init__(self, key: Key[Array, ""], size: int):
        keys = jax.random.split(key, 4)
        self.time, self.state = Linear(keys[0], WIDE, 2 * size), Linear(keys[1], WIDE, size)
        self.first, self.second = Linear(keys[2], 2 * size, size), Linear(keys[3], size, size)
        self.norm = Norm(size)

    def __call__(self, x: Array, time: Array, state: Array) -> Float[Array, "batch size"]:
        scale, shift = jnp.split(self.time(time), 2, axis=-1)
        h = self.norm(self.first(jnp.concatenate([x, self.norm(self.state(state))], axis=-1)))
        h = jax.nn.gelu(h * (scale + 1) + shift)
        return x + jax.nn.gelu(self.norm(self.second(h)))


class NormalisedLayers(equinox.Module):
    """Two layers, each normalised."""

    layers: tuple[Linear, Linear]
    norms: tuple[Norm, Norm]

    def __init__(self, key: Key[Array, ""], inputs: int):
        keys = jax.random.split(key)
        self.layers = Linear(keys[0], inputs, WIDE), Linear(keys[1], WIDE, WIDE)
        self.norms = Norm(WIDE), Norm(WIDE)

    def __call__(self, x: Array) -> Float[Array, "*batch wide"]:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = jax.nn.gelu(norm(layer(x)))
        return x


class Denoiser(equinox.Module):
    """Blocks of falling and then rising width, the rising ones with skip connections: a U-Net of vectors."""

    time: NormalisedLayers
    state: NormalisedLayers
    enter: Linear
    down: tuple[Linear, ...]
    up: tuple[Linear, ...]
    falling: tuple[SharedBlock, ...]
    rising: tuple[SharedBlock, ...]
    last: SharedBlock
    norms: tuple[Norm, ...]
    leave: Linear

    def __init__(self, key: Key[Array, ""], size: int, state: int, widths: tuple[int, ...]):
        """`size`: numbers of a vector; `state`: numbers of the state that it depends on."""
        number = len(widths)
        keys = iter(jax.random.split(key, 5 + 4 * number))
        self.time, self.state = NormalisedLayers(next(keys), CODE), NormalisedLayers(next(keys), state)
        self.enter, self.leave = Linear(next(keys), size, widths[0]), Linear(next(keys), widths[0], size)
        pairs = list(pairwise(widths))
        self.down = tuple(Linear(next(keys), wide, narrow) for wide, narrow in pairs)
        self.up = tuple(Linear(next(keys), narrow, wide) for wide, narrow in pairs)
        self.falling = tuple(SharedBlock(next(keys), width) for width in widths)
        self.rising = tuple(SharedBlock(next(keys), width) for width in widths[:-1])
        self.last, self.norms = SharedBlock(next(keys), widths[0]), tuple(Norm(width) for width in widths)

    def field(self, state: Float[Array, "batch state"]) -> Field:
        """Return the denoiser of vectors for these states."""
        told = self.state(state)
        return lambda x, time: self.predict(x, self.time(time_waves(time)), told)

    def predict(self, x: Array, time: Array, state: Array) -> Float[Array, "batch size"]:
        x = self.enter(x)
        found = [self.falling[0](x, time, state)]
        for layer, norm, block in zip(self.down, self.norms[1:], self.falling[1:], strict=True):
            found.append(block(jax.nn.gelu(norm(layer(found[-1]))), time, state))
        h = found[-1]
        for i in reversed(range(len(self.up))):
            h = self.rising[i](jax.nn.gelu(self.norms[i](self.up[i](h))) + found[i], time, state)
        return self.leave(self.last(h + x, time, state))


def time_waves(time: Int[Array, " batch"]) -> Float[Array, "batch code"]:
    """Return waves of the step, from fast to slow."""
    half = CODE // 2
    speed = jnp.exp(-math.log(10_000) / (half - 1) * jnp.arange(half))
    angle = time[:, None] * speed
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
