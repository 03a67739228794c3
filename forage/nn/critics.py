"""Action values of continuous actions, and twin critics as one stacked pytree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, Key, PyTree

from forage.core.spaces import seen, split_mask
from forage.nn.encoders import Encoder
from forage.nn.networks import CNN, MLP, Style, Torso, input_size

Module = TypeVar("Module")


class ActionValue(equinox.Module):
    """Q(s, a) as an MLP of observation and action side by side; images and dictionaries go through encoders first."""

    encoder: Encoder | None
    body: MLP
    categories: int | None = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        space: spaces.Space[Any],
        dimensions: int,
        sizes: Sequence[int],
        style: Style = Style(),  # noqa: B008
    ):
        """`dimensions`: numbers in an action. Weights and biases start uniform in +-1/sqrt(inputs)."""
        encoder_key, body_key = jax.random.split(key)
        torso = Torso(encoder_key, space, sizes, style)
        self.encoder = torso.body if isinstance(torso.body, CNN) else torso.encoder
        self.categories = torso.categories
        inputs = input_size(seen(space)) if self.encoder is None else self.encoder.size
        self.body = MLP(body_key, (inputs + dimensions, *sizes, 1), style.activation, layer_norm=style.layer_norm)

    def __call__(self, observation: PyTree[Array], action: Float[Array, "batch dimensions"]) -> Float[Array, " batch"]:
        """Values of a batch (leaves of `observation`: `batch ...`)."""
        observation, _ = split_mask(observation)
        if isinstance(self.encoder, CNN):
            features = self.encoder.rows(observation)
        elif self.encoder is not None:
            features = jax.vmap(self.encoder)(observation)
        elif self.categories is not None:
            features = jax.nn.one_hot(observation, self.categories)
        else:
            features = observation.reshape(action.shape[0], -1).astype(jnp.float32)
        return self.body(jnp.concatenate([features, action], axis=1))[:, 0]


def twins(make: Callable[[Key[Array, ""]], Module], key: Key[Array, ""], number: int = 2) -> Module:
    """Two networks, or another `number`, with independent weights, as one module whose leaves have a leading axis."""
    return jax.vmap(make)(jax.random.split(key, number))


def twin_values(critics: Callable[..., Array], *inputs: PyTree[Array]) -> Float[Array, "critic batch *outputs"]:
    """Return every critic's values of the same batch."""
    # Inputs repeated: otherwise the first layers merge into one product whose halves must be copied apart.
    number = jax.tree.leaves(critics)[0].shape[0]
    repeated = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *x.shape)), inputs)
    return jax.vmap(lambda critic, inputs: critic(*inputs))(critics, repeated)


class CriticReport(NamedTuple):
    """Measurements of the critics beside their loss."""

    error: Float[Array, " batch"]  # mean absolute error of all, which prioritised replay asks for
    loss: Float[Array, ""]
    value: Float[Array, ""]  # mean of all


def squared_error(
    values: Float[Array, "critic batch"], target: Float[Array, " batch"], weight: Float[Array, " batch"]
) -> tuple[Float[Array, ""], CriticReport]:
    """Sum over the critics of mean(weight (Q - target)^2) / 2."""
    error = values - target
    loss = 0.5 * jnp.mean(weight * error**2, axis=1).sum()
    return loss, CriticReport(jnp.abs(error).mean(0), loss, values.mean())
