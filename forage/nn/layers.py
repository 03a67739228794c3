"""Layers: small Equinox modules that see one input; every leaf is an array, so all of JAX applies.

Weights are stored (inputs, outputs). Initialisation is orthogonal (Saxe et al., 2013, arXiv 1312.6120)
with the gains PPO and DQN use, or uniform in 1/sqrt(inputs) as in PyTorch's default, which SAC and TD3 were tuned with;
`redrawn` has what other programs begin with.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Key, UInt32

from forage.core.errors import ForageError, nearest
from forage.core.spaces import Entries, Picture, picture, scale_of
from forage.nn.batch_norm import BatchNorm, BatchStyle
from forage.ops.convolution import convolve_patches, convolve_relu
from forage.ops.rows import scale_rows, standardise_rows

Activation = Callable[[Any], Any]
ACTIVATIONS: dict[str, Activation] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
}


def activation(named: str | Activation) -> Activation:
    """Return the activation of this name in `jax.nn`, or the function itself. Raise `ForageError` for no activation."""
    if not isinstance(named, str):
        return named
    found = ACTIVATIONS.get(named) or getattr(jax.nn, named, None)
    if found is None or not keeps_shape(found):
        names = {*ACTIVATIONS, *(name for name in vars(jax.nn) if keeps_shape(getattr(jax.nn, name)))}
        raise ForageError(f"There is no activation {named!r} in jax.nn{nearest(named, sorted(names))}")
    return found


def check_activation(named: str | Activation) -> None:
    """Raise `ForageError` unless a name or a function is of an activation, which gives one number for each."""
    if not keeps_shape(activation(named)):
        called = named if isinstance(named, str) else getattr(named, "__qualname__", named)
        raise ForageError(f"The activation {called} does not give one number for each; jax.nn.relu would.")


def keeps_shape(function: Any) -> bool:
    """Return whether a value is a function of one array that returns an array of the same shape."""
    like = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    try:
        found = jax.eval_shape(function, like)
    except Exception:
        return False
    return getattr(found, "shape", None) == like.shape and found.dtype == like.dtype


def orthogonal(key: Key[Array, ""], inputs: int, outputs: int, gain: float) -> Float[Array, "inputs outputs"]:
    """Return a random matrix with orthonormal rows or columns (the fewer of them), times `gain`.

    Made by Newton-Schulz iteration, X <- 1.5 X - 0.5 X X'X, which converges to the orthogonal polar factor of a
    Gaussian matrix: Haar distributed like the QR construction, but only matrix products, so it compiles in no time.
    """
    rows, columns = max(inputs, outputs), min(inputs, outputs)
    matrix = jax.random.normal(key, (rows, columns))
    # Any start with singular values in (0, sqrt 3) converges; the bound on the largest is sqrt(rows) + sqrt(columns).
    matrix = matrix / (math.sqrt(rows) + math.sqrt(columns) + 1.0)
    # Exact products, or on some devices columns would be orthonormal to three digits only.
    product = functools.partial(jnp.matmul, precision="highest")
    matrix = jax.lax.fori_loop(0, 40, lambda _, x: 1.5 * x - product(0.5 * x, product(x.T, x)), matrix)
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


FIRST_WEIGHTS = ("uniform", "glorot", "lecun", "orthogonal")
Network = TypeVar("Network")


def redraw_weights(network: Network, how: str, key: Key[Array, ""]) -> Network:
    """Return a network whose linear layers begin in another way than uniform in +-1 / sqrt(inputs), biases at zero.

        glorot       uniform in +-sqrt(6 / (inputs + outputs)) (Glorot and Bengio, 2010), as PyTorch's Xavier
        lecun        normal, cut at two deviations, with variance 1 / inputs, as Flax
        orthogonal   orthonormal rows or columns times sqrt 2, in the last layers too

    `how`: one of `FIRST_WEIGHTS`.
    """
    if how == "uniform":
        return network

    def redraw(layer: Linear, key: Key[Array, ""]) -> Linear:
        inputs, outputs = layer.weight.shape
        if how == "orthogonal":
            return Linear(key, inputs, outputs, 2**0.5)
        make = jax.nn.initializers.glorot_uniform if how == "glorot" else jax.nn.initializers.lecun_normal
        weight = make()(key, (inputs, outputs), jnp.float32)
        return equinox.tree_at(lambda layer: (layer.weight, layer.bias), layer, (weight, jnp.zeros_like(layer.bias)))

    return each_linear(network, key, redraw)


def each_linear(network: Network, key: Key[Array, ""], make: Callable[[Linear, Key[Array, ""]], Linear]) -> Network:
    """Return a network with `make(layer, key)` in place of each linear layer, every key another."""
    leaves, form = jax.tree.flatten(network, is_leaf=lambda node: isinstance(node, Linear))
    pairs = zip(leaves, jax.random.split(key, len(leaves)), strict=True)
    return jax.tree.unflatten(form, [make(leaf, key) if isinstance(leaf, Linear) else leaf for leaf, key in pairs])


class Norm(equinox.Module):
    """Layer normalisation (Ba, Kiros, Hinton, 2016, arXiv 1607.06450): y = scale (x - mean) / deviation + offset."""

    scale: Float[Array, " size"]
    offset: Float[Array, " size"]

    def __init__(self, size: int):
        self.scale, self.offset = jnp.ones(size), jnp.zeros(size)

    def __call__(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        return scale_rows(standardise_rows(x), self.scale) + self.offset


def apply_dropout(x: Float[Array, "*shape"], rate: float, key: Key[Array, ""] | None) -> Float[Array, "*shape"]:
    """Return `x` with each number zero with probability `rate`, the others divided by 1 - rate (dropout).

    Without a key nothing is dropped, as when a network is asked rather than taught. Source: Srivastava, Hinton,
    Krizhevsky, Sutskever, Salakhutdinov (2014), "Dropout: A Simple Way to Prevent Neural Networks from Overfitting".
    """
    if not rate or key is None:
        return x
    return jnp.where(random_bits(key, x.shape) >= jnp.uint32(rate * 2**32), x / (1 - rate), 0.0)


def random_bits(key: Key[Array, ""], shape: tuple[int, ...]) -> UInt32[Array, "*shape"]:
    """Return 32 random bits for each place, good enough to drop by: places are numbered, and numbers scrambled.

    On the CPU they take an eighth of the time of JAX's own, a tenth of an update with dropout. The scrambling, by two
    multiplications and three shifts, is that of Wellons (2018), "Prospecting for Hash Functions".
    """
    first, second = jax.random.bits(key, (2,), jnp.uint32)
    x = jnp.arange(math.prod(shape), dtype=jnp.uint32) * jnp.uint32(0x9E3779B9) + first
    x = (x ^ (x >> 16)) * jnp.uint32(0x21F0AAAD)
    x = (x ^ (x >> 15) ^ second) * jnp.uint32(0x735A2D97)
    return (x ^ (x >> 15)).reshape(shape)


class MLP(equinox.Module):
    """Linear layers, each but the last followed by the activation (the last too when `activate_last`).

    What is activated is dropped at random first, with `dropout` and a key, and then normalised, with `layer_norm`. With
    `batch_norm` the inputs are batch normalised, and so is what has been activated.
    """

    layers: tuple[Linear, ...]
    norms: tuple[Norm, ...]
    batch_norms: tuple[BatchNorm, ...]
    activation: str | Activation = equinox.field(static=True)
    activate_last: bool = equinox.field(static=True)
    dropout: float = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        sizes: Sequence[int],
        activation: str | Activation = "relu",
        gain: float | None = None,
        last_gain: float | None = None,
        activate_last: bool = False,
        layer_norm: bool = False,
        dropout: float = 0.0,
        batch_norm: BatchStyle | None = None,
    ):
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [gain] * (len(sizes) - 2) + [gain if activate_last else last_gain]
        self.layers = tuple(Linear(k, i, o, g) for k, i, o, g in zip(keys, sizes[:-1], sizes[1:], gains, strict=True))
        activated = sizes[1:] if activate_last else sizes[1:-1]
        self.norms = tuple(Norm(size) for size in activated) if layer_norm else ()
        batched = (sizes[0], *activated) if batch_norm else ()
        self.batch_norms = tuple(BatchNorm(size, batch_norm or BatchStyle()) for size in batched)
        self.activation = activation
        self.activate_last = activate_last
        self.dropout = dropout

    def __call__(
        self, x: Float[Array, "*batch inputs"], key: Key[Array, ""] | None = None
    ) -> Float[Array, "*batch outputs"]:
        """Apply the layers. `key`: of the dropout; there is none without it."""
        return self.forward(x, self.batch_norms, key)

    def apply_in_training(
        self, x: Float[Array, "batch inputs"], counts: Bool[Array, " batch"], key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "batch outputs"], MLP]:
        """Return the outputs while it learns, and the network with its running statistics moved.

        Batch normalisation is by the batch's own statistics, of the rows that count.
        """
        moved: list[BatchNorm] = []

        def apply_norm(norm: BatchNorm, x: Array) -> Array:
            y, after = norm.apply_in_training(x, counts)
            moved.append(after)
            return y

        y = self.forward(x, [functools.partial(apply_norm, norm) for norm in self.batch_norms], key)
        return y, equinox.tree_at(lambda mlp: mlp.batch_norms, self, tuple(moved)) if moved else self

    def forward(
        self,
        x: Float[Array, "*batch inputs"],
        batch_norms: Sequence[Callable[[Array], Array]],
        key: Key[Array, ""] | None,
    ) -> Float[Array, "*batch outputs"]:
        function = activation(self.activation)
        activated = len(self.layers) - (not self.activate_last)
        keys = [None] * activated if key is None else jax.random.split(key, activated)
        x = batch_norms[0](x) if batch_norms else x
        for number, layer in enumerate(self.layers):
            x = layer(x)
            x = apply_dropout(x, self.dropout, keys[number]) if number < activated else x
            x = self.norms[number](x) if self.norms and number < activated else x
            x = function(x) if number < activated else x
            x = batch_norms[number + 1](x) if batch_norms and number < activated else x
        return x

    def activations(self, x: Float[Array, "*batch inputs"]) -> tuple[Float[Array, "*batch units"], ...]:
        """Return the output of each layer with an activation, without dropout."""
        function, found = activation(self.activation), []
        x = self.batch_norms[0](x) if self.batch_norms else x
        for number in range(len(self.layers) - (not self.activate_last)):
            x = self.layers[number](x)
            x = function(self.norms[number](x) if self.norms else x)
            found.append(x)
            x = self.batch_norms[number + 1](x) if self.batch_norms else x
        return tuple(found)


class Conv(equinox.Module):
    """A valid convolution of an image (height, width, channels), as one matrix product over its patches or blocks."""

    linear: Linear
    kernel: int = equinox.field(static=True)
    stride: int = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], channels: int, features: int, kernel: int, stride: int, gain: float | None):
        self.linear = Linear(key, kernel * kernel * channels, features, gain)
        self.kernel = kernel
        self.stride = stride

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Return the height and width of the output."""
        return (height - self.kernel) // self.stride + 1, (width - self.kernel) // self.stride + 1

    def __call__(self, image: Float[Array, "height width channels"]) -> Float[Array, "rows columns features"]:
        stride, across = self.stride, self.kernel // self.stride
        if jax.default_backend() == "cpu" and stride > 1:
            return convolve_patches(image[None], self.linear.weight, self.linear.bias, stride, self.kernel)[0]
        rows, columns = self.size(*image.shape[:2])
        # A patch is `across` by `across` blocks of `stride` by `stride` pixels: far fewer slices than it has pixels.
        height, width = rows + across - 1, columns + across - 1
        pixels = image[: height * stride, : width * stride].reshape(height, stride, width, stride, -1)
        blocks = pixels.swapaxes(1, 2).reshape(height, width, -1)
        corners = [(i, j) for i in range(across) for j in range(across)]
        patches = jnp.concatenate([blocks[i : i + rows, j : j + columns] for i, j in corners], axis=-1)
        weight = self.linear.weight.reshape(across, stride, across, stride, -1)  # kept in the order of pixels
        return patches @ weight.swapaxes(1, 2).reshape(self.linear.weight.shape) + self.linear.bias


def is_large(space: spaces.Space[Any]) -> bool:
    """Return whether it is an image of 64 pixels and more, as of a screen."""
    found = picture(space)
    return found is not None and min(found.shape[:2]) >= 64


CACHE = 4 * 2**20
"""Bytes of patches that a processor's core can be expected to keep near it."""


class CNN(equinox.Module):
    """Convolutions, then one dense layer unless `dense` is false; rectified throughout.

    Images of 64 pixels and more: the three layers of Mnih et al. (2015, Nature 518), 32x8/4, 64x4/2, 64x3/1, dense 512.
    Smaller ones: the single layer of Young and Tian (2019, arXiv 1903.03176) for MinAtar, 16x3/1, dense 128.
    """

    convolutions: tuple[Conv, ...]
    dense: Linear | None
    size: int = equinox.field(static=True)  # number of features
    scale: float | Entries = equinox.field(static=True)  # of all channels, or of each
    picture: Picture = equinox.field(static=True)  # how the space is read: channels may come first

    def __init__(self, key: Key[Array, ""], space: spaces.Box, gain: float | None, dense: bool = True):
        found = picture(space)
        assert found is not None
        self.picture = found
        height, width, channels = found.shape
        layers = ((32, 8, 4), (64, 4, 2), (64, 3, 1)) if is_large(space) else ((16, 3, 1),)
        keys = jax.random.split(key, len(layers) + 1)
        convolutions = []
        for layer_key, (features, kernel, stride) in zip(keys[:-1], layers, strict=True):
            convolutions.append(Conv(layer_key, channels, features, kernel, stride, gain))
            height, width, channels = (height - kernel) // stride + 1, (width - kernel) // stride + 1, features
        self.convolutions = tuple(convolutions)
        convolved = height * width * channels
        self.size = (512 if len(layers) == 3 else 128) if dense else convolved
        self.dense = Linear(keys[-1], convolved, self.size, gain) if dense else None
        scale = scale_of(space)
        # The colours of one channel keep their proportions: its factor is that of its largest bound.
        each = found(scale).min((0, 1)) if isinstance(scale, np.ndarray) else scale
        self.scale = Entries(each.astype(np.float32)) if isinstance(each, np.ndarray) else each

    def __call__(self, image: Array) -> Float[Array, " features"]:
        return self.condense(self.convolve(image))

    def condense(self, x: Float[Array, "*batch flat"]) -> Float[Array, "*batch features"]:
        return x if self.dense is None else jax.nn.relu(self.dense(x))

    def pixels(self, images: Array) -> Float[Array, "*batch height width channels"]:
        """Return the first layer's input for an image, or for several."""
        scale = self.scale.values if isinstance(self.scale, Entries) else self.scale
        return self.picture(images).astype(jnp.float32) * scale

    def convolve(self, image: Array) -> Float[Array, " flat"]:
        x = self.pixels(image)
        for convolution in self.convolutions:
            x = jax.nn.relu(convolution(x))
        return x.reshape(-1)

    def activations(self, image: Array) -> tuple[Float[Array, " units"], ...]:
        """Return the output of each layer, for convolutions the mean of each feature over its places."""
        x, found = self.pixels(image), []
        for convolution in self.convolutions:
            x = jax.nn.relu(convolution(x))
            found.append(x.mean((0, 1)))
        return (*found, self.condense(x.reshape(-1))) if self.dense else tuple(found)

    def rows(self, images: Array) -> Float[Array, "rows features"]:
        """Features of many images, as if one by one.

        On a processor large images go through the convolutions a slice at a time, so that what is made of them stays
        in its cache. The dense layer, whose weights are large, sees all.
        """
        fitting = self.fitting(*self.picture.shape[:2])
        if jax.default_backend() != "cpu" or len(self.convolutions) == 1 or len(images) <= fitting:
            return jax.vmap(self)(images)
        fitting = next(n for n in range(fitting, 0, -1) if len(images) % n == 0)
        slices = images.reshape(-1, fitting, *images.shape[1:])
        return self.condense(jax.lax.map(self.convolve_rows, slices).reshape(len(images), -1))

    def convolve_rows(self, images: Array) -> Float[Array, "rows flat"]:
        """Apply the convolutions to several images at once."""
        x, scale = jax.vmap(self.picture)(images), self.scale
        if isinstance(scale, Entries):
            x, scale = x * scale.values, 1.0
        for layer in self.convolutions:  # the first one's weights are scaled in place of the images, which are more
            x = convolve_relu(x, layer.linear.weight * scale, layer.linear.bias, layer.stride, layer.kernel)
            scale = 1.0
        return x.reshape(len(x), -1)

    def fitting(self, height: int, width: int) -> int:
        """Return the number of images whose patches fit into `CACHE`, at the layer with the most patches."""
        most = 1
        for convolution in self.convolutions:
            height, width = convolution.size(height, width)
            most = max(most, height * width * convolution.linear.weight.shape[-2])
        return max(1, CACHE // (4 * most))
