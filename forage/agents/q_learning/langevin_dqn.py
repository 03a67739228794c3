"""Adam LMCDQN: deep exploration by Langevin Monte Carlo, which samples value functions by descending with noise.

Ishfaq, Lan, Xu, Mahmood, Precup, Anandkumar, Azizzadenesheli (2023), "Provable and Practical: Efficient Exploration in
Reinforcement Learning via Langevin Monte Carlo", arXiv 2305.18246, algorithm 2. The loss is that of deep Q-learning,
and each update goes

    w <- w - eta (g + a m / sqrt(v + epsilon)) + sqrt(2 eta / beta) N(0, I)
    m <- 0.9 m + 0.1 g,   v <- 0.999 v + 0.001 g^2

with gradient g, learning rate eta, bias factor a and inverse temperature beta. Where data is plenty the loss holds the
weights; elsewhere they wander, and so do the values that the agent acts greedily on. The optimiser is that of Kim,
Song, Liang (2020), "Stochastic Gradient Langevin Dynamics Algorithms with Adaptive Drifts", arXiv 2009.09535. As there,
m and v are not corrected for their start at zero, and the step uses those of the gradients before it.

It acts greedily with the newest sample, in evaluation too. Double targets and dueling streams are those of `dqn`.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.q_learning.dqn import DQN, QNetwork
from forage.core.ports import Agent, Metrics
from forage.core.spaces import check_discrete, split_mask
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.ops.action_values import best, followed


class Drift(NamedTuple):
    """Running means of the gradient and of its square, all parameters in one row."""

    mean: Float[Array, " parameters"]
    square: Float[Array, " parameters"]


class LangevinDQNState(NamedTuple):
    network: QNetwork
    target: QNetwork
    drift: Drift
    updates: Int[Array, ""]


class LangevinDQN(Agent):
    """Deep Q-learning whose weights are samples (Ishfaq et al., 2023, arXiv 2305.18246, Adam LMCDQN).

    On Atari, with a learning rate of 1e-4, the authors searched bias factors of 1, 0.1 and 0.01 and noise of 1e-8 to
    1e-6 times sqrt(2 learning_rate), which are inverse temperatures of 1e16 to 1e12. Small tasks want more noise, as
    the defaults have it (those of the authors' optimiser): what counts is how far the weights wander,
    sqrt(2 learning_rate / inverse_temperature) in an update, while an action is not tried. At an infinite
    `inverse_temperature` nothing wanders.

    The authors' code differs from what is written above: its step uses m and v with the new gradient in them, and
    sqrt(v) + epsilon; its loss is the squared error, without the half, where `dqn` has Huber's. On Atari it has an
    `n_step` of 3, not 1, and a new target every 500 updates, not every 100 environment steps, which are 25 updates.
    """

    on_policy: ClassVar[bool] = False

    learning_rate: float = 1e-3
    discount: float = 0.99
    bias_factor: float = 1.0  # of the adaptive drift
    inverse_temperature: float = 1e4
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=4)
    updates_per_rollout: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=128)
    learning_starts: int = equinox.field(static=True, default=1000)
    target_update_interval: int = equinox.field(static=True, default=100)  # environment steps
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))
    activation: str = equinox.field(static=True, default="relu")
    double: bool = equinox.field(static=True, default=True)
    dueling: bool = equinox.field(static=True, default=False)
    n_step: int = equinox.field(static=True, default=1)

    @property
    def base(self) -> DQN:
        """Deep Q-learning with the same settings: its network, loss and actions, without its optimiser."""
        return DQN(
            discount=self.discount,
            num_envs=self.num_envs,
            rollout_length=self.rollout_length,
            updates_per_rollout=self.updates_per_rollout,
            batch_size=self.batch_size,
            learning_starts=self.learning_starts,
            target_update_interval=self.target_update_interval,
            hidden_sizes=self.hidden_sizes,
            activation=self.activation,
            double=self.double,
            dueling=self.dueling,
            n_step=self.n_step,
        )

    @property
    def updates(self) -> int:
        return self.updates_per_rollout

    @property
    def segment(self) -> int:
        return self.n_step

    def check(self, spec: Spec) -> None:
        check_discrete("Langevin DQN", spec)
        self.base.check(spec)
        if isinstance(self.inverse_temperature, int | float) and self.inverse_temperature <= 0:
            raise ForageError(
                f"The inverse temperature of langevin-dqn is {self.inverse_temperature}; it is above 0, and the "
                f"higher it is, the less the weights wander."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> LangevinDQNState:
        network = QNetwork(key, spec, self.base)
        nothing = jnp.zeros_like(ravel_pytree(network)[0])
        drift = Drift(nothing, jnp.copy(nothing))
        return LangevinDQNState(network, jax.tree.map(jnp.copy, network), drift, jnp.int32(0))

    def act(
        self,
        state: LangevinDQNState,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        key: Key[Array, ""],
        explore: bool,
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        return best(state.network(observation), split_mask(observation)[1]), hidden, ()

    def action_values(
        self, state: LangevinDQNState, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"]:
        return state.network(observation)

    def probabilities(
        self, state: LangevinDQNState, observation: PyTree[Array], explore: bool
    ) -> Float[Array, " actions"]:
        q = state.network(observation)
        return jax.nn.one_hot(best(q, split_mask(observation)[1]), q.shape[-1])

    def learn(
        self, state: LangevinDQNState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LangevinDQNState, Metrics, Float[Array, " batch"]]:
        gradient, (error, metrics) = jax.grad(self.base.loss, has_aux=True)(state.network, state.target, batch)
        weights, unravel = ravel_pytree(state.network)
        weights, drift = self.step(weights, ravel_pytree(gradient)[0], state.drift, key)
        network = unravel(weights)
        count = state.updates + 1
        target = followed(self, state.target, network, count)
        return LangevinDQNState(network, target, drift, count), metrics, jnp.abs(error[0]) * batch.experience.counts[0]

    def step(
        self,
        weights: Float[Array, " parameters"],
        gradient: Float[Array, " parameters"],
        drift: Drift,
        key: Key[Array, ""],
    ) -> tuple[Float[Array, " parameters"], Drift]:
        """The weights and the drift after one noisy step down the gradient."""
        down = gradient + self.bias_factor * drift.mean / jnp.sqrt(drift.square + 1e-8)
        noise = jnp.sqrt(2 * self.learning_rate / self.inverse_temperature) * jax.random.normal(key, weights.shape)
        moved = Drift(0.9 * drift.mean + 0.1 * gradient, 0.999 * drift.square + 0.001 * gradient**2)
        return weights - self.learning_rate * down + noise, moved
