"""Noisy layers: linear layers whose weights carry learned noise, by which an agent explores.

Fortunato, Azar, Piot, Menick, Osband, Graves, Mnih, Munos, Hassabis, Pietquin, Blundell, Legg (2017), "Noisy Networks
for Exploration", arXiv 1706.10295, with factorised Gaussian noise (equations 9 to 11). With p inputs,

    y = x (W + S * f(e) f(h)') + b + s * f(h),   f(x) = sign(x) sqrt |x|,  e ~ N(0, 1)^p,  h ~ N(0, 1)^outputs

where W, b, S and s are learned; W and b begin uniform in +-1 / sqrt(p), S and s as `scale` / sqrt(p).
"""

from __future__ import annotations

import math
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.nn.layers import Linear, each_linear

Network = TypeVar("Network")


class NoisyLinear(Linear):
    """A linear layer with the size of the noise of its weights; called, it computes without noise."""

    weight_noise: Float[Array, "inputs outputs"]
    bias_noise: Float[Array, " outputs"]

    def __init__(self, key: Key[Array, ""], inputs: int, outputs: int, scale: float):
        super().__init__(key, inputs, outputs)
        self.weight_noise = jnp.full((inputs, outputs), scale / math.sqrt(inputs))
        self.bias_noise = jnp.full((outputs,), scale / math.sqrt(inputs))


def make_noisy(network: Network, key: Key[Array, ""], scale: float) -> Network:
    """Return a network with noisy layers in place of its linear ones."""

    def make(layer: Linear, key: Key[Array, ""]) -> Linear:
        inputs, outputs = layer.weight.shape
        return NoisyLinear(key, inputs, outputs, scale)

    return each_linear(network, key, make)


def draw_noise(network: Network, key: Key[Array, ""]) -> Network:
    """Return a network with noise drawn for each of its noisy layers, and added to the weights."""

    def draw(layer: Linear, key: Key[Array, ""]) -> Linear:
        if not isinstance(layer, NoisyLinear):
            return layer
        before, after = (
            jax.random.normal(k, (n,)) for k, n in zip(jax.random.split(key), layer.weight.shape, strict=True)
        )
        return add_noise(layer, before, after)

    return each_linear(network, key, draw)


def add_noise(layer: NoisyLinear, before: Float[Array, " inputs"], after: Float[Array, " outputs"]) -> NoisyLinear:
    """Return a layer with its noise made of these normal numbers added to its weights."""
    rows, columns = (jnp.sign(x) * jnp.sqrt(jnp.abs(x)) for x in (before, after))
    weight = layer.weight + layer.weight_noise * rows[:, None] * columns
    bias = layer.bias + layer.bias_noise * columns
    return jax.tree.unflatten(jax.tree.structure(layer), [weight, bias, layer.weight_noise, layer.bias_noise])
