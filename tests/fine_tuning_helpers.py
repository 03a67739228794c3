"""Helpers for tests of agents between offline and online: a space, constant networks, and batches."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from forage.core.types import Batch, Experience, Spec

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-2.0, 2.0, (2,), np.float32))


def constant(network, where, value):
    """Return the network with a constant output: weights zero, its last bias `value`."""
    return equinox.tree_at(where, jax.tree.map(jnp.zeros_like, network), jnp.asarray(value, jnp.float32))


def constant_critics(critics, values):
    """Return critics with these constant values."""
    return constant(critics, lambda critics: critics.body.layers[-1].bias, [[value] for value in values])


def linear_critics(critics, slope, first):
    """Critics of one layer that say `slope` times the number `first` of their inputs."""
    weight = jnp.zeros_like(critics.body.layers[-1].weight).at[:, first, 0].set(slope)
    return equinox.tree_at(lambda c: c.body.layers[-1].weight, jax.tree.map(jnp.zeros_like, critics), weight)


def batch(rows=4, source=0, **fields):
    """A batch of segments of one transition."""
    random = np.random.default_rng(0)
    seen, after = (random.normal(size=(rows, 3)).astype(np.float32) for _ in range(2))
    no = np.zeros(rows, bool)
    usual = {
        "observation": seen,
        "action": random.uniform(-2, 2, (rows, 2)).astype(np.float32),
        "reward": np.arange(rows, dtype=np.float32),
        "next_observation": after,
        "terminated": no,
        "truncated": no,
        "source": np.full(rows, source, np.int32),
        "policy_info": (),
    }
    experience = Experience(**(usual | fields))
    return jax.device_put(Batch(jax.tree.map(lambda x: x[None], experience), np.ones(rows), np.arange(rows)))
