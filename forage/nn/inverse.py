"""Inverse dynamics: a model of the action between two observations, and an embedding trained by that model alone."""

from __future__ import annotations

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Key

from forage.nn.distributions import Actions
from forage.nn.embedding import Embedding
from forage.nn.networks import MLP


class InverseModel(equinox.Module):
    """Predicts a from phi(s) and phi(s'), so that phi contains the effects of actions and no other changes.

    Discrete actions: softmax for each choice. Continuous ones: their place in the unit box.
    """

    embedding: Embedding  # phi
    head: MLP
    actions: Actions = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        shape: tuple[int, ...],
        space: spaces.Space,
        hidden_sizes: tuple[int, ...],
        size: int,
        hidden: int = 256,
    ):
        """`shape` of an observation, `space` of actions, `size` of phi, `hidden` units between phi and the action."""
        embedding_key, head_key = jax.random.split(key)
        self.embedding = Embedding(embedding_key, shape, hidden_sizes, size)
        self.actions = Actions.from_space(space)
        self.head = MLP(head_key, (2 * size, hidden, self.actions.outputs), "relu", 2**0.5, last_gain=0.01)

    def error(self, now: Float[Array, " phi"], after: Float[Array, " phi"], action: Array) -> Float[Array, ""]:
        """-log p(a | phi(s), phi(s')), summed over choices; half the squared error where actions are continuous."""
        outputs, heard = self.head(jnp.concatenate([now, after])), self.actions.action_features(action)
        if not self.actions.discrete:
            return 0.5 * jnp.sum((outputs - heard) ** 2)
        choices = jnp.split(outputs, np.cumsum(self.actions.sizes)[:-1].tolist())
        return -jnp.sum(heard * jnp.concatenate([jax.nn.log_softmax(choice) for choice in choices]))
