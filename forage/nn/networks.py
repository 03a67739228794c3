"""Networks: from an observation to features, and what remembers them. What they are made of is in `layers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, Key, PyTree

from forage.core.spaces import seen, split_mask
from forage.nn.encoders import Encoder, encoder, is_image, is_plain
from forage.nn.encoders import input_size as input_size
from forage.nn.layers import ACTIVATIONS as ACTIVATIONS
from forage.nn.layers import CNN, MLP, Linear
from forage.nn.layers import Conv as Conv
from forage.nn.layers import activation as activation
from forage.nn.layers import orthogonal as orthogonal


class Torso(equinox.Module):
    """From an observation (but its action mask) to features: CNN for images, one-hot for numbers, else an MLP.

    What is neither of these, a dictionary above all, goes through `encoders` first, leaf by leaf, then the MLP.
    """

    body: CNN | MLP
    encoder: Encoder | None
    categories: int | None = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        space: spaces.Space[Any],
        sizes: Sequence[int],
        activation: str,
        gain: float | None = None,
        dense: bool = True,
    ):
        """`sizes` of an MLP's layers; of a CNN, `dense` is whether a layer follows the convolutions."""
        space = seen(space)
        self.categories = int(space.n) if isinstance(space, spaces.Discrete) and is_plain(space) else None
        self.encoder = None
        if is_image(space):
            self.body = CNN(key, space, gain, dense)  # pyrefly: ignore[bad-argument-type]
            return
        inputs = input_size(space)
        if not is_plain(space):
            key, encoder_key = jax.random.split(key)
            self.encoder = encoder(encoder_key, space, gain)
            inputs = self.encoder.size
        self.body = MLP(key, (inputs, *sizes), activation, gain, activate_last=True)

    @property
    def size(self) -> int:
        """Number of features."""
        return self.body.size if isinstance(self.body, CNN) else self.body.layers[-1].bias.shape[-1]

    @property
    def convolves(self) -> bool:
        """Return whether it sees an image, alone or among other things: worth sharing between policy and value."""
        parts = jax.tree.leaves(self, is_leaf=lambda x: isinstance(x, CNN))
        return any(isinstance(part, CNN) for part in parts)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " features"]:
        observation, _ = split_mask(observation)
        if isinstance(self.body, CNN):
            return self.body(observation)
        if self.encoder is not None:
            return self.body(self.encoder(observation))
        if self.categories is not None:
            return self.body(jax.nn.one_hot(observation, self.categories))
        return self.body(observation.reshape(-1).astype(jnp.float32))

    def rows(self, observations: PyTree[Array]) -> Float[Array, "rows features"]:
        """Features of many observations (leaves `rows ...`), as if one by one; of images, sooner."""
        if isinstance(self.body, CNN):
            return self.body.rows(split_mask(observations)[0])
        return jax.vmap(self)(observations)


class Recall(NamedTuple):
    """The state that an agent with memory keeps from step to step."""

    features: Float[Array, " memory"]  # the GRU's state
    action: Float[Array, " actions"]  # the action before (`Actions.heard`), all zeros at an episode's start

    @classmethod
    def nothing(cls, memory: int, actions: int) -> Recall:
        return cls(jnp.zeros(memory), jnp.zeros(actions))


class GRU(equinox.Module):
    """Gated recurrent unit (Cho et al., 2014, arXiv 1406.1078): h' = (1 - z) n + z h. Hears the action before, too."""

    inputs: Linear
    hidden: Linear

    def __init__(self, key: Key[Array, ""], inputs: int, actions: int, size: int):
        input_key, hidden_key = jax.random.split(key)
        self.inputs = Linear(input_key, inputs + actions, 3 * size, gain=1.0)
        self.hidden = Linear(hidden_key, size, 3 * size, gain=1.0)

    def __call__(self, before: Recall, features: Float[Array, " inputs"]) -> Float[Array, " size"]:
        return self.step(before.features, self.hear(features, before.action))

    def hear(self, features: Float[Array, " inputs"], action: Float[Array, " actions"]) -> Float[Array, " gates"]:
        """Return what does not depend on time: features of an observation, and the action before it."""
        return self.inputs(jnp.concatenate([features, action]))

    def step(self, h: Float[Array, " size"], x: Float[Array, " gates"]) -> Float[Array, " size"]:
        """The part that depends on time; `x` is what `hear` returns, in one product for a whole sequence."""
        x_reset, x_update, x_new = jnp.split(x, 3)
        h_reset, h_update, h_new = jnp.split(self.hidden(h), 3)
        reset, update = jax.nn.sigmoid(x_reset + h_reset), jax.nn.sigmoid(x_update + h_update)
        new = jnp.tanh(x_new + reset * h_new)
        return (1 - update) * new + update * h
