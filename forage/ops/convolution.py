"""Convolutions on a processor: one product of matrices over an image's blocks, without copies of its patches.

A kernel of k x k pixels with stride s, which divides k, covers (k/s)^2 blocks of s x s pixels. The product of every
block with the weights of every place a block can have in a patch is one product of matrices; what comes out for a patch
is the sum of its blocks' shares, each at its place. Patches themselves hold each pixel (k/s)^2 times, and copying them
took longer than multiplying them.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped


def blocks(
    images: Shaped[Array, "row height width channels"], kernel: int, stride: int
) -> Shaped[Array, "row h w block"]:
    """Return the blocks of `stride` by `stride` pixels that a valid convolution sees, each as one vector."""
    rows, height, width, _ = images.shape
    h, w = (height - kernel) // stride + kernel // stride, (width - kernel) // stride + kernel // stride
    pixels = images[:, : h * stride, : w * stride].reshape(rows, h, stride, w, stride, -1)
    return pixels.swapaxes(2, 3).reshape(rows, h, w, -1)


def by_block(
    weight: Float[Array, "inputs features"], kernel: int, stride: int
) -> Float[Array, "across across block features"]:
    """Return a kernel's weights, which are in the order of pixels, by the place of a block in a patch."""
    across, features = kernel // stride, weight.shape[-1]
    pixels = weight.reshape(across, stride, across, stride, -1, features).swapaxes(1, 2)
    return pixels.reshape(across, across, -1, features)


def flatten_weights(weight: Float[Array, "across across block features"]) -> Float[Array, "block shares"]:
    """Return the weights of a block's pixels side by side, for each of its places and each feature."""
    return weight.transpose(2, 0, 1, 3).reshape(weight.shape[2], -1)


def sum_blocks(
    seen: Float[Array, "row h w block"], weight: Float[Array, "across across block features"]
) -> Float[Array, "row rows columns features"]:
    """Return each patch's sum of its blocks' products with their weights."""
    rows, height, width, block = seen.shape
    across, features = weight.shape[0], weight.shape[-1]
    share = (seen.reshape(-1, block) @ flatten_weights(weight)).reshape(rows, height, width, across * across * features)
    h, w = height - across + 1, width - across + 1
    corners = [(i, j) for i in range(across) for j in range(across)]
    return sum(  # type: ignore[return-value]
        share[:, i : i + h, j : j + w, n * features : (n + 1) * features] for n, (i, j) in enumerate(corners)
    )


def convolve_patches(
    images: Shaped[Array, "row height width channels"],
    weight: Float[Array, "inputs features"],
    bias: Float[Array, " features"],
    stride: int,
    kernel: int,
) -> Float[Array, "row rows columns features"]:
    """Return a valid convolution. `weight` is in the order of a patch's pixels; `stride` divides `kernel`."""
    return sum_blocks(blocks(images, kernel, stride).astype(weight.dtype), by_block(weight, kernel, stride)) + bias


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def convolve_relu(
    images: Shaped[Array, "row height width channels"],
    weight: Float[Array, "inputs features"],
    bias: Float[Array, " features"],
    stride: int,
    kernel: int,
) -> Float[Array, "row rows columns features"]:
    """Return max(0, `convolve_patches`), whose gradient is two more products of matrices.

    Of the images, which may be whole numbers, and of what comes out nothing more is kept for it.
    """
    return jax.nn.relu(convolve_patches(images, weight, bias, stride, kernel))


def _forward(images: Array, weight: Array, bias: Array, stride: int, kernel: int) -> tuple[Array, tuple[Array, ...]]:
    y = convolve_relu(images, weight, bias, stride, kernel)
    return y, (images, weight, y)


def _backward(
    stride: int, kernel: int, kept: tuple[Array, ...], dy: Array
) -> tuple[Array | None, Float[Array, "inputs features"], Float[Array, " features"]]:
    images, weight, y = kept
    seen = blocks(images, kernel, stride).astype(dy.dtype)
    rows, height, width, block = seen.shape
    across = kernel // stride
    dy = jnp.where(y > 0, dy, 0.0)
    # A block has a place in up to `across`^2 patches, whose gradients stand beside each other here.
    margin = across - 1
    padded = jnp.pad(dy, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
    places = [(margin - i, margin - j) for i in range(across) for j in range(across)]
    shares = jnp.concatenate([padded[:, i : i + height, j : j + width] for i, j in places], axis=-1)
    shares = shares.reshape(rows * height * width, -1)
    by_place, of_weight = jax.vjp(lambda w: flatten_weights(by_block(w, kernel, stride)), weight)
    (dweight,) = of_weight(seen.reshape(-1, block).T @ shares)
    if not jnp.issubdtype(images.dtype, jnp.floating):
        return None, dweight, dy.sum((0, 1, 2))
    _, of_images = jax.vjp(lambda x: blocks(x, kernel, stride), images)
    (dimages,) = of_images((shares @ by_place.T).reshape(seen.shape))
    return dimages, dweight, dy.sum((0, 1, 2))


convolve_relu.defvjp(_forward, _backward)
