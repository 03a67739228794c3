"""Convolutions by blocks against XLA's own: outputs, and the gradients of all inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import compute

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

    def by_patches(*x):
        return convolve_patches(*x, stride, kernel)

    def convolve_and_rectify(*x):
        return convolve_relu(*x, stride, kernel)

    given = (images, weight, bias)
    ours, theirs, above = compute(lambda *x: (by_patches(*x), by_xla(*x), convolve_and_rectify(*x)), *given)
    close(ours, theirs)
    close(above, np.maximum(ours, 0))
    tilt = jnp.asarray(random.normal(size=ours.shape), jnp.float32)

    def slopes(*x):
        ways = (lambda *x: jax.nn.relu(by_xla(*x)), convolve_and_rectify, lambda *x: jax.nn.relu(by_patches(*x)))
        return [jax.grad(lambda *x, f=f: (f(*x) * tilt).sum(), argnums=(0, 1, 2))(*x) for f in ways]

    expected, *found = compute(slopes, *given)
    for one in found:
        jax.tree.map(close, one, expected)


def test_whole_numbers_are_images_too_and_have_no_gradient():
    images = jnp.arange(2 * 6 * 6, dtype=jnp.uint8).reshape(2, 6, 6, 1)
    weight, bias = jnp.ones((4, 1)), jnp.zeros(1)

    def slopes(weight):
        return [
            jax.grad(lambda w, x=x: convolve_relu(x, w, bias, 2, 2).sum())(weight)
            for x in (images, images.astype(jnp.float32))
        ]

    np.testing.assert_allclose(*compute(slopes, weight))
