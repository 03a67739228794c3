"""Policy and value in one module, as policy-gradient agents train them."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, Key, PyTree

from forage.core.spaces import STATE, central, split_mask
from forage.nn.distributions import Actions, BangBang, Distribution
from forage.nn.networks import CELLS, GRU, GRUState, Linear, NetworkConfig, Torso
from forage.nn.state_noise import log_deviation, standardise_noise


class ActorCriticConfig(NamedTuple):
    """The sizes and options that decide the shape of an `ActorCritic`."""

    hidden_sizes: tuple[int, ...]
    style: NetworkConfig | str | Any  # an activation stands for a style that has it
    gru_size: int = 0  # units of the GRU; 0: no memory
    central: bool = False  # the value sees the observation's "state" instead of what the policy sees
    value_heads: int = 1  # of reward, each with a value of its own
    state_noise: bool = False  # the deviation of continuous actions depends on the policy's features
    log_std: Any = None  # of continuous actions at first; `None`: 0, or with `state_noise` the authors' -2
    value_sizes: tuple[int, ...] = ()  # of the value's own torso; without them `hidden_sizes`
    bang_bang: bool = False  # continuous actions are ends of their ranges
    cell: str = "gru"  # of an agent with memory, one of `networks.CELLS`


class ActorCritic(equinox.Module):
    """Policy and values, one for each stream of reward.

    Vectors get a torso each; images, and agents with memory, share one torso (and the GRU).

    A central critic has a torso of its own, for the state that it sees, and no memory; and a value with sizes of its
    own has one for what the policy sees.
    """

    torsos: Torso | tuple[Torso, ...]  # leaves [1 or 2, ...]: one torso for both, or the policy's and the value's,
    # side by side; a tuple of them after `split`
    state_torso: Torso | None  # of a central critic, or of a value with sizes of its own
    gru: GRU | None
    actor: Linear
    critic: Linear
    log_std: Float[Array, "*features dimensions"] | None  # a row for each feature with noise that depends on the state
    actions: Actions = equinox.field(static=True)
    central: bool = equinox.field(static=True)  # the value sees the observation's "state"
    bang_bang: bool = equinox.field(static=True)  # continuous actions are ends of their ranges

    def __init__(
        self, key: Key[Array, ""], observation_space: spaces.Space, action_space: spaces.Space, shape: ActorCriticConfig
    ):
        keys = jax.random.split(key, 5)

        def torso(key: Key[Array, ""], space: spaces.Space = observation_space, sizes: Any = ()) -> Torso:
            return Torso(key, space, sizes or shape.hidden_sizes, shape.style, gain=2**0.5)

        one = jax.eval_shape(torso, key)
        own = shape.central or bool(shape.value_sizes)
        shared = shape.gru_size > 0 or one.convolves or own
        self.torsos = jax.vmap(torso)(keys[: 1 if shared else 2])
        self.central = shape.central
        self.bang_bang = shape.bang_bang
        state_space = central(observation_space) if shape.central else observation_space
        self.state_torso = torso(keys[1], state_space, shape.value_sizes) if own and state_space else None
        size = one.size
        self.actions = Actions.from_space(action_space)
        self.gru = CELLS[shape.cell](keys[2], size, self.actions.outputs, shape.gru_size) if shape.gru_size else None
        size = shape.gru_size or size
        self.actor = Linear(keys[3], size, self.actions.outputs, gain=0.01)
        size = self.state_torso.size if self.state_torso else size
        self.critic = Linear(keys[4], size, shape.value_heads, gain=1.0)
        features = (shape.gru_size or one.size,) if shape.state_noise else ()
        usual = -2.0 if shape.state_noise else 0.0
        first = usual if shape.log_std is None else shape.log_std
        log_std = jnp.full((*features, len(self.actions.low)), first, jnp.float32)
        self.log_std = None if self.actions.discrete or shape.bang_bang else log_std

    def torso(self, index: int) -> Torso:
        """Return the policy's torso (0) or the value's (-1)."""
        if isinstance(self.torsos, tuple):
            return self.torsos[index]
        return jax.tree.map(lambda x: x[index], self.torsos)

    def split(self) -> ActorCritic:
        """Return the network with its torsos apart, for steps in turn: each step would copy the weights of one."""
        count = jax.tree.leaves(self.torsos)[0].shape[0] if jax.tree.leaves(self.torsos) else 1
        apart = tuple(self.torso(index) for index in range(count))
        return equinox.tree_at(lambda network: network.torsos, self, apart)

    def features(self, observation: PyTree[Array]) -> Float[Array, " features"]:
        """Return the features of the policy, before the memory of an agent that has one."""
        return self.torso(0)(observation)

    def rows(self, observation: PyTree[Array]) -> tuple[Float[Array, "rows outputs"], Float[Array, "rows streams"]]:
        """Return the policy's outputs and the values of a batch (leaves `rows ...`), of an agent without memory."""
        if isinstance(self.torsos, tuple):
            features = [torso.rows(observation) for torso in self.torsos]
        else:
            features = jax.vmap(lambda torso: torso.rows(observation))(self.torsos)
        if self.state_torso is not None:
            return self.outputs(features[0]), self.values(observation)
        return self.outputs(features[0]), self.critic(features[-1])

    def values(self, observation: PyTree[Array]) -> Float[Array, "rows streams"]:
        """Return the values alone of a batch, of an agent without memory."""
        if self.state_torso is not None:
            return self.critic(self.state_torso.rows(observation[STATE] if self.central else observation))
        return self.critic(self.torso(-1).rows(observation))

    def policy(self, features: Float[Array, " features"], observation: PyTree[Array]) -> Distribution:
        return self.distribution(self.outputs(features), observation)

    def outputs(self, features: Float[Array, "*batch features"]) -> Float[Array, "*batch outputs"]:
        """Return the arguments of `distribution`: logits or means, and log-deviations that depend on the state."""
        features = self.memory_output(features)
        if self.log_std is None or self.log_std.ndim == 1:
            return self.actor(features)
        # The noise learns its size and not the features, as with the authors' PPO.
        return jnp.concatenate(
            [self.actor(features), log_deviation(self.log_std, jax.lax.stop_gradient(features))], axis=-1
        )

    def distribution(self, outputs: Float[Array, " outputs"], observation: PyTree[Array]) -> Distribution:
        if self.log_std is not None and self.log_std.ndim == 2:
            outputs, log_std = jnp.split(outputs, [self.actions.outputs])
            return self.actions.distribution(outputs, log_std, split_mask(observation)[1])
        if self.bang_bang:
            return BangBang(outputs)
        return self.actions.distribution(outputs, self.log_std, split_mask(observation)[1])

    def standard_noise(
        self, features: Float[Array, " features"], noise: Float[Array, "*noise"]
    ) -> Float[Array, " dimensions"]:
        """Return the standard normal numbers that noise of the shape of `log_std` stands for."""
        assert self.log_std is not None
        features = self.memory_output(features)
        return standardise_noise(self.log_std, features, noise) if self.log_std.ndim == 2 else noise

    def value(
        self, observation: PyTree[Array], features: Float[Array, " features"] | None = None
    ) -> Float[Array, " streams"]:
        """Return the values of an observation; `features` are the GRU's, of an agent with memory."""
        if self.state_torso is not None:
            return self.critic(self.state_torso(observation[STATE] if self.central else observation))
        return self.critic(self.torso(-1)(observation) if features is None else self.memory_output(features))

    def memory_output(self, features: Float[Array, "*batch memory"]) -> Float[Array, "*batch features"]:
        """Return the features that policy and value read, of the memory's state if there is one."""
        return features if self.gru is None else self.gru.output(features)

    def remember(self, hidden: GRUState, observation: PyTree[Array]) -> Float[Array, " size"]:
        """Return the GRU's new state, which is also the features of the policy, and of a value that is not central."""
        assert self.gru is not None
        return self.gru(hidden, self.features(observation))
