"""SimBaV2's networks: features and weights of unit length, and steps between features on the sphere.

Lee, Lee, Seno, Kim, Stone, Choo (2025), "Hyperspherical Normalization for Scalable Deep Reinforcement Learning", arXiv
2502.15280. With |x| = 1 after `unit`, every weight W without bias and with columns of length one, s and a learned
numbers, one for each unit,

    x = unit(s * W unit([input, 3]))
    x = unit(x + a (unit(W2 relu(s * W1 x)) - x))         for each block, W1 four times as wide
    W2 (s * W1 x) + b                                     where there are outputs

After each step of the optimiser the columns are brought back to length one (`on_sphere`). First weights, sizes and the
first values of s and a are those of the authors' code (DAVIAN-Robotics/SimbaV2: simbaV2_layer.py, simbaV2_network.py,
simbaV2_update.py, configs/agent/simbaV2.yaml).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from forage.nn.layers import Activation, activation, orthogonal
from forage.ops.optimiser import Optimiser
from forage.ops.rows import scale_rows

WIDENED = 4  # times as wide as the network is the inside of its blocks
SHIFT = 3.0  # number beside the inputs, by which their length is not lost
LEAST = 1e-8  # least length that is divided by; and what is added inside blocks, so that no features are all zero


def unit(x: Float[Array, "*batch size"], axis: int = -1) -> Float[Array, "*batch size"]:
    """Scale vectors to length one."""
    return scale_rows(x, jax.lax.rsqrt(jnp.maximum(jnp.sum(x**2, axis=axis, keepdims=True), LEAST**2)))


class UnitLinear(equinox.Module):
    """y = x W, the columns of W of length one."""

    weight: Float[Array, "inputs outputs"]

    def __init__(self, key: Key[Array, ""], inputs: int, outputs: int):
        self.weight = unit(orthogonal(key, inputs, outputs, 1.0), axis=0)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return x @ self.weight


class Scaler(equinox.Module):
    """Each number times a learned one, which is `first` at first and learns as if it were `scale`."""

    scaler: Float[Array, " size"]
    ratio: float = equinox.field(static=True)

    def __init__(self, size: int, first: float, scale: float):
        self.scaler, self.ratio = jnp.full(size, scale), first / scale

    def __call__(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        return scale_rows(x, self.scaler * self.ratio)


class SphereBlock(equinox.Module):
    """One block: a step on the sphere towards the output of its layers."""

    up: UnitLinear
    scale: Scaler
    down: UnitLinear
    step: Scaler

    def __init__(self, key: Key[Array, ""], size: int, blocks: int):
        keys = jax.random.split(key)
        inside = math.sqrt(2 / size) / math.sqrt(WIDENED)
        self.up, self.down = UnitLinear(keys[0], size, WIDENED * size), UnitLinear(keys[1], WIDENED * size, size)
        self.scale = Scaler(WIDENED * size, inside, inside)
        self.step = Scaler(size, 1 / (blocks + 1), 1 / math.sqrt(size))

    def inside(self, x: Float[Array, "*batch size"], function: Activation) -> Float[Array, "*batch units"]:
        return function(self.scale(self.up(x))) + LEAST

    def __call__(self, x: Float[Array, "*batch size"], function: Activation) -> Float[Array, "*batch size"]:
        return unit(x + self.step(unit(self.down(self.inside(x, function))) - x))


class SphereHead(equinox.Module):
    """Two layers with a scaler between them, and biases."""

    first: UnitLinear
    scale: Scaler
    second: UnitLinear
    bias: Float[Array, " outputs"]

    def __init__(self, key: Key[Array, ""], size: int, outputs: int):
        keys = jax.random.split(key)
        self.first, self.second = UnitLinear(keys[0], size, size), UnitLinear(keys[1], size, outputs)
        self.scale, self.bias = Scaler(size, 1.0, 1.0), jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch outputs"]:
        return self.second(self.scale(self.first(x))) + self.bias


class Hypersphere(equinox.Module):
    """SimBaV2's network, in place of an `MLP`: features of length one, or the outputs of a head on them."""

    enter: UnitLinear
    scale: Scaler
    blocks: tuple[SphereBlock, ...]
    leave: SphereHead | None
    activation: str | Activation = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        inputs: int,
        sizes: Sequence[int],
        outputs: int | None,
        activation: str | Activation,
    ):
        """`sizes`: the width, once for each block; `outputs`: numbers of the head, `None` for no head."""
        width = sizes[0]
        enter, leave, *keys = jax.random.split(key, 2 + len(sizes))
        self.enter = UnitLinear(enter, inputs + 1, width)
        self.scale = Scaler(width, math.sqrt(2 / width), math.sqrt(2 / width))
        self.blocks = tuple(SphereBlock(k, width, len(sizes)) for k in keys)
        self.leave = None if outputs is None else SphereHead(leave, width, outputs)
        self.activation = activation

    def __call__(
        self, x: Float[Array, "*batch inputs"], key: Key[Array, ""] | None = None
    ) -> Float[Array, "*batch outputs"]:
        """Return the outputs, or the features before them; without dropout, so no `key` is used."""
        function, x = activation(self.activation), self.first_input(x)
        for block in self.blocks:
            x = block(x, function)
        return x if self.leave is None else self.leave(x)

    def first_input(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch size"]:
        """Return the input of the first block."""
        beside = jnp.full((*x.shape[:-1], 1), SHIFT, x.dtype)
        return unit(self.scale(self.enter(unit(jnp.concatenate([x, beside], axis=-1)))))

    def activations(self, x: Float[Array, "*batch inputs"]) -> tuple[Float[Array, "*batch units"], ...]:
        """Return the activations inside each block."""
        function, x, found = activation(self.activation), self.first_input(x), []
        for block in self.blocks:
            found.append(block.inside(x, function))
            x = block(x, function)
        return tuple(found)


def on_sphere(optimiser: Optimiser) -> Optimiser:
    """Return the optimiser whose steps leave the columns of every `UnitLinear` at length one."""
    steps = optimiser.transformation

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates, state = steps.update(updates, state, params)

        def leaf(old: PyTree[Array], step: PyTree[Array]) -> PyTree[Array]:
            if not is_unit(old):
                return step
            back = unit(old.weight + step.weight, axis=-2) - old.weight  # of several critics at once too
            return equinox.tree_at(lambda layer: layer.weight, step, back)

        return jax.tree.map(leaf, params, updates, is_leaf=is_unit), state

    return Optimiser(optax.GradientTransformation(steps.init, update))


def is_unit(node: Any) -> bool:
    return isinstance(node, UnitLinear)
