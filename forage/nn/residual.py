"""Residual networks, in place of an `MLP`: layers whose output is added to their input.

    simba   x = W s;   x = x + W2 f(W1 norm(x)) for each block, W1 four times as wide;   norm(x)
    bro     x = f(norm(W s));   x = x + norm(W2 f(norm(W1 x))) for each block

f is the activation, norm a layer normalisation. Sources: Lee, Hwang, Kim, Kim, Tai, Subramanian, Wurman, Choo, Stone,
Seno (2024), "SimBa: Simplicity Bias for Scaling Up Parameters in Deep Reinforcement Learning", arXiv 2410.09754, whose
network sees normalised observations; Nauman, Ostaszewski, Jankowski, Miłoś, Cygan (2024), "Bigger, Regularized,
Optimistic: scaling for compute and sample-efficient continuous control", arXiv 2405.16158, its BroNet. First weights
are those of the authors' code: SimBa's orthogonal, and in blocks normal with variance 2/inputs; BroNet's orthogonal
times the root of 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.core.errors import ForageError
from forage.nn.layers import Activation, Linear, Norm, activation

WIDENED = 4  # times as wide as SimBa's network is the inside of its blocks


class SimBaBlock(equinox.Module):
    """One block of SimBa's."""

    norm: Norm
    up: Linear
    down: Linear

    def __init__(self, key: Key[Array, ""], size: int):
        keys = jax.random.split(key)
        self.norm = Norm(size)
        self.up, self.down = he_normal(keys[0], size, WIDENED * size), he_normal(keys[1], WIDENED * size, size)

    def inside(self, x: Float[Array, "*batch size"], function: Activation) -> Float[Array, "*batch units"]:
        return function(self.up(self.norm(x)))

    def __call__(self, x: Float[Array, "*batch size"], function: Activation) -> Float[Array, "*batch size"]:
        return x + self.down(self.inside(x, function))


class BroBlock(equinox.Module):
    """One block of BroNet's."""

    first: Linear
    first_norm: Norm
    second: Linear
    second_norm: Norm

    def __init__(self, key: Key[Array, ""], size: int):
        keys = jax.random.split(key)
        self.first, self.second = (Linear(k, size, size, 2**0.5) for k in keys)
        self.first_norm, self.second_norm = Norm(size), Norm(size)

    def inside(self, x: Float[Array, "*batch size"], function: Activation) -> Float[Array, "*batch units"]:
        return function(self.first_norm(self.first(x)))

    def __call__(self, x: Float[Array, "*batch size"], function: Activation) -> Float[Array, "*batch size"]:
        return x + self.second_norm(self.second(self.inside(x, function)))


class Residual(equinox.Module):
    """Blocks between a linear layer and, where it has outputs, another one."""

    enter: Linear
    blocks: tuple[SimBaBlock, ...] | tuple[BroBlock, ...]
    norm: Norm  # SimBa's after its blocks, BroNet's before them
    leave: Linear | None
    activation: str | Activation = equinox.field(static=True)
    torso: str = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        torso: str,
        inputs: int,
        sizes: Sequence[int],
        outputs: int | None,
        activation: str | Activation,
    ):
        """`sizes`: the width, once for each block; `outputs`: numbers of a last layer, `None` for no such layer."""
        width, gain = one_width(torso, sizes), GAINS[torso]
        enter, leave, *keys = jax.random.split(key, 2 + len(sizes))
        block = SimBaBlock if torso == "simba" else BroBlock
        self.enter = Linear(enter, inputs, width, gain)
        self.blocks = tuple(block(k, width) for k in keys)  # pyrefly: ignore[bad-assignment]
        self.norm = Norm(width)
        self.leave = None if outputs is None else Linear(leave, width, outputs, gain)
        self.activation, self.torso = activation, torso

    def __call__(
        self, x: Float[Array, "*batch inputs"], key: Key[Array, ""] | None = None
    ) -> Float[Array, "*batch outputs"]:
        """Return the outputs, or the features before them; without dropout, so no `key` is used."""
        function, x = activation(self.activation), self.first_input(x)
        for block in self.blocks:
            x = block(x, function)
        x = self.norm(x) if self.torso == "simba" else x
        return x if self.leave is None else self.leave(x)

    def first_input(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch size"]:
        """Return the input of the first block."""
        x = self.enter(x)
        return activation(self.activation)(self.norm(x)) if self.torso == "bro" else x

    def activations(self, x: Float[Array, "*batch inputs"]) -> tuple[Float[Array, "*batch units"], ...]:
        """Return the activations inside each block: the residual stream is no layer of units."""
        function, x, found = activation(self.activation), self.first_input(x), []
        for block in self.blocks:
            found.append(block.inside(x, function))
            x = block(x, function)
        return tuple(found)


GAINS = {"simba": 1.0, "bro": 2**0.5, "simba-v2": 1.0}
"""By the name of a residual torso: gain of its first and last layers, and of the layer that an agent puts behind it."""

TORSOS = ("mlp", *GAINS)


def he_normal(key: Key[Array, ""], inputs: int, outputs: int) -> Linear:
    """Return a linear layer whose weights are truncated normal with variance 2/inputs, and whose biases are zero."""
    weight = jax.nn.initializers.he_normal()(key, (inputs, outputs), jnp.float32)
    blank = jax.eval_shape(lambda: Linear(key, inputs, outputs, 1.0))
    return equinox.tree_at(lambda layer: (layer.weight, layer.bias), blank, (weight, jnp.zeros(outputs)))


def one_width(torso: str, sizes: Sequence[int]) -> int:
    """Return the width of all blocks. Raise `ForageError` for a torso or widths that cannot be."""
    if torso not in GAINS:
        raise ForageError(f"There is no torso {torso!r}; there are {', '.join(TORSOS)}.")
    if len(set(sizes)) != 1:
        raise ForageError(
            f"The blocks of a {torso} torso are equally wide, so that each adds to the one before; {tuple(sizes)} is "
            f"not one width, repeated once for each block."
        )
    return sizes[0]
