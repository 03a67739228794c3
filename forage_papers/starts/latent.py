"""Latent Go-Explore's representation of states, and their density in it."""

from __future__ import annotations

from typing import NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.spaces import observation_part
from forage.core.types import Spec
from forage.nn.distributions import Actions
from forage.nn.layers import Linear
from forage.nn.networks import MLP, Torso, input_size

MODELS = ("inverse", "forward", "autoencoder")


class Transition(NamedTuple):
    """The transition into a kept state."""

    observation: PyTree[Array]
    action: PyTree[Array]
    next_observation: PyTree[Array]


class Latent(equinox.Module):
    """An encoder, and the head that it is trained with: of an action, the next observation, or a reconstruction."""

    torso: Torso
    code: Linear
    head: MLP
    actions: Actions = equinox.field(static=True)
    model: str = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, model: str, latent_size: int, hidden_sizes: tuple[int, ...]):
        keys = jax.random.split(key, 3)
        space = observation_part(spec.observation_space)
        self.torso = Torso(keys[0], space, hidden_sizes, "relu", gain=2**0.5)
        self.code = Linear(keys[1], self.torso.size, latent_size, gain=1.0)
        self.actions, self.model = Actions.from_space(spec.action_space), model
        seen_size, outputs = input_size(space), self.actions.outputs
        inputs = latent_size * (1 + (model == "inverse")) + outputs * (model == "forward")
        size = outputs if model == "inverse" else seen_size
        self.head = MLP(keys[2], (inputs, 64, 64, size), "relu", 2**0.5, last_gain=1.0)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " latent"]:
        return self.code(self.torso(observation))

    def loss(self, transition: Transition) -> Float[Array, ""]:
        """Compute the loss of one transition, its observations normalised."""
        action = self.actions.action_features(transition.action)
        if self.model == "inverse":
            both = jnp.concatenate([self(transition.observation), self(transition.next_observation)])
            outputs = self.head(both)
            if not self.actions.discrete:
                return jnp.mean((outputs - action) ** 2)
            cuts = np.cumsum(self.actions.sizes)[:-1].tolist()
            likely = jnp.concatenate([jax.nn.log_softmax(part) for part in jnp.split(outputs, cuts)])
            return -(likely * action).sum()
        if self.model == "forward":
            wanted, inputs = transition.next_observation, jnp.concatenate([self(transition.observation), action])
        else:
            wanted, inputs = transition.next_observation, self(transition.next_observation)
        return jnp.mean((self.head(inputs) - self.target(wanted)) ** 2)

    def target(self, observation: PyTree[Array]) -> Float[Array, " number"]:
        """Return an observation as the numbers to predict."""
        if self.torso.categories is not None:
            return jax.nn.one_hot(observation, self.torso.categories)
        return observation.reshape(-1).astype(jnp.float32)


def density(codes: Float[Array, "slot latent"], kept: Int[Array, ""], k: int) -> Float[Array, " slot"]:
    """Return minus the distance to the k-th nearest other code, a monotone proxy of density; infinite in empty slots.

    Where fewer than k others are kept, the furthest of them counts.
    """
    slots = jnp.arange(codes.shape[0])
    squares = (codes**2).sum(1)

    def slot_density(slot: Int[Array, ""]) -> Float[Array, ""]:
        # Near codes differ by what is left of three large numbers, of which fast products have too few digits.
        products = jnp.matmul(2 * codes, codes[slot], precision="highest")
        distance = jnp.maximum(squares[slot] + squares - products, 0.0)
        others = (slots < kept) & (slots != slot)
        nearest = smallest(jnp.where(others, distance, jnp.inf), jnp.clip(kept - 1, 1, k))
        return jnp.where(slot < kept, -jnp.sqrt(nearest), jnp.inf)

    return jax.lax.map(slot_density, slots, batch_size=128)  # so that it stays in a processor's cache


def smallest(numbers: Float[Array, " number"], k: Int[Array, ""]) -> Float[Array, ""]:
    """Return the k-th smallest of numbers that are not negative, by halving: to sort them takes twenty times as long.

    Such numbers are in the order of their bits, and 31 halvings find any bits.
    """
    bits = jax.lax.bitcast_convert_type(numbers, jnp.int32)

    def halve(_: Int[Array, ""], ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = low + (high - low) // 2
        enough = jnp.where(bits <= middle, 1.0, 0.0).sum() >= k
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    infinite = jax.lax.bitcast_convert_type(jnp.float32(jnp.inf), jnp.int32)
    return jax.lax.bitcast_convert_type(jax.lax.fori_loop(0, 31, halve, (jnp.int32(0), infinite))[1], jnp.float32)
