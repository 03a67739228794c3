"""Networks: small Equinox modules that see one observation; every leaf is an array, so all of JAX applies.

Weights are stored (inputs, outputs). Initialisation is orthogonal (Saxe et al., 2013, arXiv 1312.6120)
with the gains PPO and DQN use, or uniform in 1/sqrt(inputs) as in PyTorch's default, which SAC and TD3 were tuned with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, Key, PyTree

from forage.spaces import seen, split_mask
from forage.types import ForageError

Activation = Callable[[Array], Array]
ACTIVATIONS: dict[str, Activation] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
}


def activation(name: str) -> Activation:
    if name not in ACTIVATIONS:
        raise ForageError(f"There is no activation {name!r}; choose one of {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]


def orthogonal(key: Key[Array, ""], inputs: int, outputs: int, gain: float) -> Float[Array, "inputs outputs"]:
    """A random matrix with orthonormal rows or columns (whichever are fewer), times `gain`.

    Made by Newton-Schulz iteration, X <- 1.5 X - 0.5 X X'X, which converges to the orthogonal polar factor of a
    Gaussian matrix: Haar distributed like the QR construction, but only matrix products, so it compiles in no time.
    """
    rows, columns = max(inputs, outputs), min(inputs, outputs)
    matrix = jax.random.normal(key, (rows, columns))
    # Any start with singular values in (0, sqrt 3) converges; the bound on the largest is sqrt(rows) + sqrt(columns).
    matrix = matrix / (math.sqrt(rows) + math.sqrt(columns) + 1.0)
    matrix = jax.lax.fori_loop(0, 40, lambda _, x: 1.5 * x - 0.5 * x @ (x.T @ x), matrix)
    return gain * (matrix if inputs >= outputs else matrix.T)


class Linear(equinox.Module):
    """y = x W + b."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, key: Key[Array, ""], inputs: int, outputs: int, gain: float | None = None):
        """`gain`: orthogonal with zero bias; `None`: both uniform in +-1/sqrt(inputs)."""
        if gain is None:
            bound = 1 / math.sqrt(inputs)
            weight_key, bias_key = jax.random.split(key)
            self.weight = jax.random.uniform(weight_key, (inputs, outputs), minval=-bound, maxval=bound)
            self.bias = jax.random.uniform(bias_key, (outputs,), minval=-bound, maxval=bound)
        else:
            self.weight = orthogonal(key, inputs, outputs, gain)
            self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return x @ self.weight + self.bias


class MLP(equinox.Module):
    """Linear layers, each but the last followed by the activation (the last too when `activate_last`)."""

    layers: tuple[Linear, ...]
    activation: str = equinox.field(static=True)
    activate_last: bool = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        sizes: Sequence[int],
        activation: str = "relu",
        gain: float | None = None,
        last_gain: float | None = None,
        activate_last: bool = False,
    ):
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [gain] * (len(sizes) - 2) + [gain if activate_last else last_gain]
        self.layers = tuple(Linear(k, i, o, g) for k, i, o, g in zip(keys, sizes[:-1], sizes[1:], gains, strict=True))
        self.activation = activation
        self.activate_last = activate_last

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        function = activation(self.activation)
        for layer in self.layers[:-1]:
            x = function(layer(x))
        x = self.layers[-1](x)
        return function(x) if self.activate_last else x


class Conv(equinox.Module):
    """A valid convolution of an image (height, width, channels), as one matrix product over its patches."""

    linear: Linear
    kernel: int = equinox.field(static=True)
    stride: int = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], channels: int, features: int, kernel: int, stride: int, gain: float | None):
        self.linear = Linear(key, kernel * kernel * channels, features, gain)
        self.kernel = kernel
        self.stride = stride

    def __call__(self, image: Float[Array, "height width channels"]) -> Float[Array, "rows columns features"]:
        k, s = self.kernel, self.stride
        rows, columns = ((size - k) // s + 1 for size in image.shape[:2])
        patches = [
            image[i : i + s * (rows - 1) + 1 : s, j : j + s * (columns - 1) + 1 : s] for i in range(k) for j in range(k)
        ]
        return self.linear(jnp.concatenate(patches, axis=-1))


class CNN(equinox.Module):
    """Convolutions, then one dense layer; rectified throughout.

    Images of 64 pixels and more: the three layers of Mnih et al. (2015, Nature 518), 32x8/4, 64x4/2, 64x3/1, dense 512.
    Smaller ones: the single layer of Young and Tian (2019, arXiv 1903.03176) for MinAtar, 16x3/1, dense 128.
    """

    convolutions: tuple[Conv, ...]
    dense: Linear
    scale: float = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], space: spaces.Box, gain: float | None):
        height, width, channels = space.shape
        layers = ((32, 8, 4), (64, 4, 2), (64, 3, 1)) if min(height, width) >= 64 else ((16, 3, 1),)
        keys = jax.random.split(key, len(layers) + 1)
        convolutions = []
        for layer_key, (features, kernel, stride) in zip(keys[:-1], layers, strict=True):
            convolutions.append(Conv(layer_key, channels, features, kernel, stride, gain))
            height, width, channels = (height - kernel) // stride + 1, (width - kernel) // stride + 1, features
        self.convolutions = tuple(convolutions)
        self.dense = Linear(keys[-1], height * width * channels, 512 if len(layers) == 3 else 128, gain)
        self.scale = 1 / 255 if space.dtype == jnp.uint8 else 1.0

    def __call__(self, image: Array) -> Float[Array, " features"]:
        x = image.astype(jnp.float32) * self.scale
        for convolution in self.convolutions:
            x = jax.nn.relu(convolution(x))
        return jax.nn.relu(self.dense(x.reshape(-1)))


class Torso(equinox.Module):
    """From an observation (but its action mask) to features: CNN for images, one-hot for numbers, else an MLP."""

    body: CNN | MLP
    categories: int | None = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        space: spaces.Space[Any],
        sizes: Sequence[int],
        activation: str,
        gain: float | None = None,
    ):
        space = seen(space)
        self.categories = int(space.n) if isinstance(space, spaces.Discrete) else None
        if isinstance(space, spaces.Box) and len(space.shape) == 3 and min(space.shape[:2]) >= 3:
            self.body = CNN(key, space, gain)
        else:
            self.body = MLP(key, (input_size(space), *sizes), activation, gain, activate_last=True)

    @property
    def size(self) -> int:
        """Number of features."""
        last = self.body.dense if isinstance(self.body, CNN) else self.body.layers[-1]
        return last.bias.shape[-1]

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " features"]:
        observation, _ = split_mask(observation)
        if isinstance(self.body, CNN):
            return self.body(observation)
        if self.categories is not None:
            return self.body(jax.nn.one_hot(observation, self.categories))
        return self.body(observation.reshape(-1).astype(jnp.float32))


def input_size(space: spaces.Space[Any]) -> int:
    """How many numbers a network without convolutions sees of one observation."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if space.shape is None:
        raise ForageError(f"Networks read boxes, images and numbers, not {space}; flatten the observation first.")
    return math.prod(space.shape)


class Recall(NamedTuple):
    """What an agent with memory keeps from step to step."""

    features: Float[Array, " memory"]  # the GRU's state
    action: Float[Array, " actions"]  # the action before (`Actions.heard`), all zeros at an episode's start

    @classmethod
    def nothing(cls, memory: int, actions: int) -> Recall:
        return cls(jnp.zeros(memory), jnp.zeros(actions))


class GRU(equinox.Module):
    """Gated recurrent unit (Cho et al., 2014, arXiv 1406.1078): h' = (1 - z) n + z h. Hears the action before, too."""

    inputs: Linear
    hidden: Linear

    def __init__(self, key: Key[Array, ""], inputs: int, actions: int, size: int):
        input_key, hidden_key = jax.random.split(key)
        self.inputs = Linear(input_key, inputs + actions, 3 * size, gain=1.0)
        self.hidden = Linear(hidden_key, size, 3 * size, gain=1.0)

    def __call__(self, before: Recall, features: Float[Array, " inputs"]) -> Float[Array, " size"]:
        return self.step(before.features, self.hear(features, before.action))

    def hear(self, features: Float[Array, " inputs"], action: Float[Array, " actions"]) -> Float[Array, " gates"]:
        """What does not depend on time: features of an observation, and the action before it."""
        return self.inputs(jnp.concatenate([features, action]))

    def step(self, h: Float[Array, " size"], x: Float[Array, " gates"]) -> Float[Array, " size"]:
        """The part that depends on time; `x` is what `hear` returns, in one product for a whole sequence."""
        x_reset, x_update, x_new = jnp.split(x, 3)
        h_reset, h_update, h_new = jnp.split(self.hidden(h), 3)
        reset, update = jax.nn.sigmoid(x_reset + h_reset), jax.nn.sigmoid(x_update + h_update)
        new = jnp.tanh(x_new + reset * h_new)
        return (1 - update) * new + update * h
