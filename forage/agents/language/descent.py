"""Steps down a loss of a rollout's answers, in minibatches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core import mesh
from forage.core.ports import Metrics
from forage.ops.rows import shuffle

Loss = Callable[[Any, Any, Bool[Array, ""]], tuple[Float[Array, ""], Metrics]]
FIRST = ("first_ratio", "sampler_gap")
"""Metrics of the first minibatch alone; all others are averaged."""


def descend(
    loss: Loss,
    learned: PyTree[Array],
    inner: Any,
    optimiser: Any,
    lesson: PyTree[Array],
    epochs: int,
    minibatches: int,
    key: Key[Array, ""],
) -> tuple[PyTree[Array], Any, Metrics]:
    """Return the trained networks, the optimiser's state and metrics after `epochs` passes over a lesson.

    The lesson has leaves `item ...`. `loss(learned, items, first)` is of some of its items, `first` being true before
    any step was made. One pass over one minibatch takes the items in their order; otherwise each pass shuffles them.
    """
    count = len(jax.tree.leaves(lesson)[0])

    def step(carry: tuple[Any, Any], item: tuple[Array, Array]) -> tuple[tuple[Any, Any], Metrics]:
        learned, inner = carry
        chosen, first = item
        part = mesh.split_leaves(jax.tree.map(lambda x: x[chosen], lesson))
        gradient, metrics = jax.grad(loss, has_aux=True)(learned, part, first)
        return mesh.lay_out_weights(optimiser.step(mesh.lay_out_weights(gradient), inner, learned)), metrics

    def order(key: Key[Array, ""]) -> Array:
        return jnp.arange(count) if minibatches == 1 else shuffle(jax.random.bits(key, (count,)))

    orders = jax.vmap(order)(jax.random.split(key, epochs)).reshape(epochs * minibatches, -1)
    first = jnp.arange(len(orders)) == 0
    (learned, inner), metrics = jax.lax.scan(step, (learned, inner), (orders, first))
    said = {name: x[0] if name in FIRST else jnp.mean(x) for name, x in metrics.items()}
    return learned, inner, said
