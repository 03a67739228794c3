"""Iterated Q-networks (i-DQN): a chain of values, each learned from the one before.

Vincent, Palenicek, Belousov, Peters, D'Eramo (2025), "Iterated Q-Network: Beyond One-Step Bellman Updates in Deep
Reinforcement Learning", arXiv 2403.02107. Q_0 stands still, and Q_1 ... Q_K learn together, Q_k from a copy Q'_{k-1}
of the one before it:

    sum_k Huber(r + discount max_a Q'_{k-1}(s', a) - Q_k(s, a)),   nothing after a terminal state

Every `copy_interval` steps the copies are made anew, and every `target_update_interval` steps the chain moves on by
one: Q_{k-1} becomes Q_k for all k, and Q_K begins where it was. With a chain of one it is DQN. Each action is that of
a Q_k drawn anew, each as likely.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.q_learning.dqn import DQN, DQNState, QNetwork
from forage.core.ports import ActInputs, Metrics, State
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Spec
from forage.ops.action_values import best_action, updates_in
from forage.ops.losses import LossReport, loss_gradient
from forage.ops.rows import concatenate_rows


class IteratedDQN(DQN):
    """DQN that learns several Bellman updates at once (Vincent et al., 2025, arXiv 2403.02107).

    It follows the authors' code, but that the networks share no layers, as they do in its settings for Atari. Those
    copy after 30 steps and move on after 6,000; here the chain moves on as often as DQN's target is
    renewed. Their loss is squared; here it is DQN's. They report returns while learning; without exploring, the action
    here is the one of the highest value on average over the chain.
    """

    example: ClassVar[str] = "forage train i-dqn CartPole-v1"
    ranges: ClassVar[Ranges] = {"chain": Range(1), "copy_interval": Range(1)}
    unused: ClassVar[Unused] = {
        "double gru_size noisy": ("A chain of values has no double targets, memory or noisy layers", "take dqn"),
        "target_rate": ("A chain of values moves on as a whole", "take dqn"),
        "recycle_interval count_dormant": "A chain of networks is not searched for dormant units",
    }

    chain: int = equinox.field(static=True, default=5)  # values that learn together; more look more Bellman updates
    # ahead, at more computing
    copy_interval: int = equinox.field(static=True, default=30)  # environment steps between two copies of the values
    # that the next ones in the chain learn from; the authors' in Atari
    double: bool = equinox.field(static=True, default=False)

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        networks = jax.vmap(lambda key: self.network(key, spec))(jax.random.split(key, self.chain + 1))
        learned = jax.tree.map(lambda x: x[1:], networks)
        return DQNState(
            learned, jax.tree.map(lambda x: x[:-1], networks), self.descent(1.0).init(learned), jnp.int32(0)
        )

    def each_value(self, state: State, observation: PyTree[Array]) -> Float[Array, "chain actions"]:
        """Return the values of one observation by Q_1 ... Q_K."""
        return jax.vmap(lambda network: network(observation))(state.network)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        q = self.each_value(state, inputs.observation)
        q = q[jax.random.randint(inputs.key, (), 0, self.chain)] if inputs.explore else q.mean(0)
        return best_action(q, split_mask(inputs.observation)[1]), inputs.hidden, inputs.hidden

    def action_values(
        self, state: State, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"]:
        return self.each_value(state, observation).mean(0)

    def probabilities(self, state: State, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        q, mask = self.each_value(state, observation), split_mask(observation)[1]
        if explore:
            return jax.nn.one_hot(best_action(q, mask), q.shape[-1]).mean(0)
        return jax.nn.one_hot(best_action(q.mean(0), mask), q.shape[-1])

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        loss_key = jax.random.fold_in(key, 1)
        gradient, (error, metrics) = loss_gradient(self.loss, state.network, state.target, batch, loss_key)
        state = self.descend(state, gradient, clock, key)
        count = state.updates + 1
        network, target = self.shift_chain(state.network, state.target, count)
        error = error * self.valid(batch.experience)[:1]
        return state._replace(network=network, target=target, updates=count), metrics, self.surprise(error)

    def loss(
        self, network: QNetwork, target: QNetwork, batch: Batch, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, ""], LossReport]:
        """Sum DQN's loss over the chain; also return the mean absolute error and the means of the metrics."""
        loss, (error, metrics) = jax.vmap(super().loss, (0, 0, None, None))(network, target, batch, key)
        return loss.sum(), LossReport(jnp.abs(error).mean(0), jax.tree.map(lambda x: x.mean(0), metrics))

    def shift_chain(self, network: QNetwork, target: QNetwork, count: Int[Array, ""]) -> tuple[QNetwork, QNetwork]:
        """Return Q_1 ... Q_K and Q'_0 ... Q'_{K-1} after update number `count`."""
        move = count % updates_in(self, self.target_update_interval) == 0
        copy = move | (count % updates_in(self, self.copy_interval) == 0)
        first = jax.tree.map(lambda old, new: jnp.where(move, new[:1], old[:1]), target, network)
        network = jax.tree.map(lambda x: jnp.where(move, jnp.concatenate([x[1:], x[-1:]]), x), network)
        others = jax.tree.map(lambda old, new: jnp.where(copy, new[:-1], old[1:]), target, network)
        return network, concatenate_rows(first, others)
