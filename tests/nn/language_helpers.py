"""Transformers with random weights far from their initial ones, drawn in NumPy without compiling."""

import jax
import jax.numpy as jnp
import numpy as np

from forage.nn.transformer import Transformer


def draw(architecture, dtype=jnp.float32, seed=0):
    """Return a transformer with random norms and biases."""
    like = jax.eval_shape(lambda: Transformer(jax.random.key(0), architecture, dtype))
    generator = np.random.default_rng(seed)

    def fill(path, leaf):
        centre = 1.0 if "norm" in jax.tree_util.keystr(path) else 0.0
        return jnp.asarray(centre + 0.4 * generator.normal(size=leaf.shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(fill, like)
