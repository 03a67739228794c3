"""Losses that users extend: their reports, metrics and gradients.

A loss takes the network that it is differentiated by first, and returns the loss and a report. Of PPO the report is the
dictionary of metrics itself; agents that replay report each row's error beside it. Of both, `report | {"name": number}`
has one metric more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from forage.core.errors import ForageError

Metrics = dict[str, Array]


class LossReport(NamedTuple):
    """The errors of the rows that a loss is of, and its metrics."""

    error: Float[Array, "*batch"]
    metrics: Metrics

    def __or__(self, metrics: Metrics) -> LossReport:
        """Return the report with more metrics."""
        return self._replace(metrics=self.metrics | metrics)


def loss_gradient(loss: Callable[..., tuple[Array, Any]], network: PyTree[Array], *inputs: Any) -> tuple[Any, Any]:
    """Return the gradient of `loss(network, *inputs)` with respect to the network, and the report.

    Raise `ForageError` for a loss that returns anything other than a loss and a report, such as one of a user's agent.
    """

    def checked_loss(network: PyTree[Array], *inputs: Any) -> tuple[Array, Any]:
        return check_loss(loss, loss(network, *inputs))

    return jax.grad(checked_loss, has_aux=True)(network, *inputs)


def join_metrics(*groups: Metrics) -> Metrics:
    """Return the metrics of all groups. Raise `ForageError` if two groups use one name."""
    joined: Metrics = {}
    for group in groups:
        if same := sorted(joined.keys() & group.keys()):
            raise ForageError(f"Two losses of this agent return a metric {same[0]!r}; give one of them another name.")
        joined |= group
    return joined


def check_loss(loss: Callable[..., Any], returned: Any) -> tuple[Array, Any]:
    """Return a loss's result with its metrics as arrays. Raise `ForageError` if it is none."""
    owner = getattr(loss, "__self__", None)
    name = f"{type(owner).__name__}.{loss.__name__}" if owner is not None else "The loss"
    example = 'such as `return loss + term, metrics | {"term": term}`'
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise ForageError(f"{name} returns two values, the loss and its metrics, {example}, not {describe(returned)}.")
    value, report = returned
    if not is_number(value) or not jnp.issubdtype(jnp.result_type(value), jnp.floating):
        raise ForageError(f"{name} returns one number as the loss, such as a mean, not {describe(value)}.")
    metrics = getattr(report, "metrics", report)
    if not isinstance(metrics, dict):
        raise ForageError(f"{name} returns its metrics by name, {example}, not {describe(report)}.")
    numbers = {}
    for key, number in metrics.items():
        if not isinstance(key, str) or not is_number(number):
            raise ForageError(
                f"{name} returns one number for each metric, such as a mean, and for {key!r} {describe(number)}."
            )
        numbers[key] = jnp.asarray(number, jnp.float32)
    return value, numbers if metrics is report else report._replace(metrics=numbers)


def is_number(value: Any) -> bool:
    """Return whether a value is one real number, a traced one or one of Python."""
    if not isinstance(value, Array | np.ndarray | np.generic | float | int) or jnp.shape(value) != ():
        return False
    return any(jnp.issubdtype(jnp.result_type(value), kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))


def describe(value: Any) -> str:
    """Describe a wrong result of a loss."""
    if isinstance(value, Array | np.ndarray):
        shape = "one number" if value.shape == () else f"an array of shape {value.shape}"
        return shape if jnp.issubdtype(value.dtype, jnp.floating) else f"{shape} of {value.dtype}"
    return "None" if value is None else f"a {type(value).__name__}"
