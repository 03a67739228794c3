"""Action values of continuous actions, twin critics as one stacked pytree, and quick gradients of big batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, Key, PyTree

from forage.nn.networks import CNN, MLP, Linear, Torso, activation, input_size
from forage.spaces import seen, split_mask

Module = TypeVar("Module")


class ActionValue(equinox.Module):
    """Q(s, a) as an MLP of observation and action side by side; an image goes through its own CNN first."""

    encoder: CNN | None
    body: MLP
    categories: int | None = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], space: spaces.Space[Any], dimensions: int, sizes: Sequence[int]):
        """`dimensions`: numbers in an action. Weights and biases start uniform in +-1/sqrt(inputs)."""
        encoder_key, body_key = jax.random.split(key)
        torso = Torso(encoder_key, space, sizes, "relu")
        self.encoder = torso.body if isinstance(torso.body, CNN) else None
        self.categories = torso.categories
        inputs = input_size(seen(space)) if self.encoder is None else torso.size
        self.body = MLP(body_key, (inputs + dimensions, *sizes, 1), "relu")

    def __call__(self, observation: PyTree[Array], action: Float[Array, "batch dimensions"]) -> Float[Array, " batch"]:
        """Values of a batch (leaves of `observation`: `batch ...`)."""
        observation, _ = split_mask(observation)
        if self.encoder is not None:
            features = jax.vmap(self.encoder)(observation)
        elif self.categories is not None:
            features = jax.nn.one_hot(observation, self.categories)
        else:
            features = observation.reshape(action.shape[0], -1).astype(jnp.float32)
        return mlp_rows(self.body, jnp.concatenate([features, action], axis=1))[:, 0]


def twins(make: Callable[[Key[Array, ""]], Module], key: Key[Array, ""]) -> Module:
    """Two networks with independent weights, as one module whose leaves have a leading axis of 2."""
    return jax.vmap(make)(jax.random.split(key, 2))


def twin_values(critics: Callable[..., Array], *inputs: PyTree[Array]) -> Float[Array, "2 batch *outputs"]:
    """Both critics' values of the same batch."""
    # Inputs doubled: otherwise the first layers merge into one product whose halves must be copied apart.
    doubled = jax.tree.map(lambda x: jnp.broadcast_to(x, (2, *x.shape)), inputs)
    return jax.vmap(lambda critic, inputs: critic(*inputs))(critics, doubled)


def torso_rows(torso: Torso, observation: PyTree[Array]) -> Float[Array, "batch features"]:
    """`torso` of every row of a batch (leaves `batch ...`)."""
    if isinstance(torso.body, CNN):
        return jax.vmap(torso)(observation)
    observation, _ = split_mask(observation)
    if torso.categories is not None:
        return mlp_rows(torso.body, jax.nn.one_hot(observation, torso.categories))
    return mlp_rows(torso.body, observation.reshape(observation.shape[0], -1).astype(jnp.float32))


def mlp_rows(mlp: MLP, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    """`mlp` of every row: as `vmap`, with quicker gradients on CPU (reverse mode only)."""
    function = activation(mlp.activation)
    for layer in mlp.layers[:-1]:
        x = function(linear_rows(layer, x))
    x = linear_rows(mlp.layers[-1], x)
    return function(x) if mlp.activate_last else x


def linear_rows(linear: Linear, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    """`linear` of every row: as `vmap`, with quicker gradients on CPU (reverse mode only)."""
    return _affine(x, linear.weight, linear.bias)


@jax.custom_vjp
def _affine(x, weight, bias):
    return x @ weight + bias


def _affine_forward(x, weight, bias):
    return x @ weight + bias, (x, weight)


def _affine_backward(residuals, gradient):
    x, weight = residuals
    # The x' g that JAX would make. Left to itself, XLA on CPU contracts x in place, which is slow, and hands the
    # optimiser a transposed gradient, which is slower still; so the smaller matrix is transposed first.
    narrow = weight.shape[0] >= 8 * weight.shape[1]
    copied = jax.lax.optimization_barrier(gradient.T if narrow else x.T)
    return gradient @ weight.T, (copied @ x).T if narrow else copied @ gradient, gradient.sum(0)


_affine.defvjp(_affine_forward, _affine_backward)
