"""Policies of a team whose members have a network each: one action for each member, and its gradient.

A choice among numbered actions is the draw argmax(logits + Gumbel noise), whose gradient is that of softmax(logits +
noise): the straight-through estimator of Jang, Gu, Poole (2016), "Categorical Reparameterization with Gumbel-Softmax",
arXiv 1611.01144.
"""

from __future__ import annotations

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core.spaces import split_mask
from forage.core.types import Spec
from forage.nn.distributions import Actions
from forage.nn.networks import TorsoHead

TeamActions = Float[Array, "batch agent dimensions"]
"""Actions in the unit box, or one-hot."""


class Actor(TorsoHead):
    """The policy of one member: an action before the tanh, or the logits of numbered ones."""

    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, sizes: tuple[int, ...], activation: str):
        self.actions = Actions.from_space(spec.action_space)
        super().__init__(key, spec.observation_space, sizes, activation, self.actions.outputs, head_gain=0.01)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " outputs"]:
        return self.head(self.torso(observation))

    def choose(
        self, outputs: Float[Array, " outputs"], mask: Bool[Array, " outputs"] | None, noise: Float[Array, " outputs"]
    ) -> Float[Array, " outputs"]:
        """Return the action of a network's outputs, as critics see it; `noise` is added before a choice."""
        if not self.actions.discrete:
            return jnp.tanh(outputs)
        logits = outputs + noise if mask is None else jnp.where(mask, outputs + noise, -jnp.inf)
        relaxed = jax.nn.softmax(logits)
        return jax.nn.one_hot(logits.argmax(), len(logits)) + relaxed - jax.lax.stop_gradient(relaxed)


def draw_actions(
    actors: Actor, observation: PyTree[Array], noise: TeamActions
) -> tuple[TeamActions, Float[Array, "batch agent outputs"]]:
    """Return each member's action as critics see it, for observations `batch agent ...`, and the networks' outputs."""
    seen, mask = split_mask(observation)
    outputs = jax.vmap(lambda seen: jax.vmap(lambda actor, o: actor(o))(actors, seen))(seen)
    return jax.vmap(jax.vmap(actors.choose))(outputs, mask, noise), outputs
