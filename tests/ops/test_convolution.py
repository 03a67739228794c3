"""Convolutions by blocks against XLA's own: outputs, and the gradients of all inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.ops.convolution import convolve_patches, convolve_relu
from tests.tiers import first


@pytest.mark.parametrize(
    ("height", "width", "channels", "kernel", "stride"),
    first(1, [(9, 11, 3, 4, 2), (6, 5, 3, 3, 1), (20, 20, 4, 8, 4), (10, 13, 2, 4, 2), (7, 7, 1, 2, 2)]),
)
def test_the_same_as_xla_makes_of_it(height, width, channels, kernel, stride):
    random = np.random.default_rng(0)
    images = jnp.asarray(random.normal(size=(3, height, width, channels)), jnp.float32)
    weight = jnp.asarray(random.normal(size=(kernel * kernel * channels, 5)), jnp.float32)
    bias = jnp.asarray(random.normal(size=5), jnp.float32)

    def by_xla(images, weight, bias):
        filters = weight.reshape(kernel, kernel, channels, 5)
        order = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(images, filters, (stride, stride), "VALID", dimension_numbers=order) + bias

    def close(found, expected):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    ours = convolve_patches(images, weight, bias, stride, kernel)
    close(ours, by_xla(images, weight, bias))
    close(convolve_relu(images, weight, bias, stride, kernel), np.maximum(ours, 0))
    tilt = jnp.asarray(random.normal(size=ours.shape), jnp.float32)
    given = (images, weight, bias)
    expected = jax.grad(lambda *x: (jax.nn.relu(by_xla(*x)) * tilt).sum(), argnums=(0, 1, 2))(*given)
    for function in (convolve_relu, lambda *x: jax.nn.relu(convolve_patches(*x))):
        found = jax.grad(lambda *x, f=function: (f(*x, stride, kernel) * tilt).sum(), argnums=(0, 1, 2))(*given)
        jax.tree.map(close, found, expected)


def test_whole_numbers_are_images_too_and_have_no_gradient():
    images = jnp.arange(2 * 6 * 6, dtype=jnp.uint8).reshape(2, 6, 6, 1)
    weight, bias = jnp.ones((4, 1)), jnp.zeros(1)
    found = jax.grad(lambda w: convolve_relu(images, w, bias, 2, 2).sum())(weight)
    expected = jax.grad(lambda w: convolve_relu(images.astype(jnp.float32), w, bias, 2, 2).sum())(weight)
    np.testing.assert_allclose(found, expected)
