"""Adam LMCDQN: deep exploration by Langevin Monte Carlo, which samples value functions by noisy gradient descent.

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
from jaxtyping import Array, Float, Int, Key

from forage.agents.q_learning.dqn import DQN, QNetwork
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Spec


class Drift(NamedTuple):
    """Running means of the gradient and of its square, all parameters in one row."""

    mean: Float[Array, " parameters"]
    square: Float[Array, " parameters"]


class LangevinDQNState(NamedTuple):
    network: QNetwork
    target: QNetwork
    drift: Drift
    updates: Int[Array, ""]


class LangevinDQN(DQN):
    """Deep Q-learning with sampled weights (Ishfaq et al., 2023, arXiv 2305.18246, Adam LMCDQN).

    On Atari, with a learning rate of 1e-4, the authors searched bias factors of 1, 0.1 and 0.01 and noise of 1e-8 to
    1e-6 times sqrt(2 learning_rate), which are inverse temperatures of 1e16 to 1e12. Small tasks want more noise, as
    the defaults have it (those of the authors' optimiser): what counts is how far the weights wander,
    sqrt(2 learning_rate / inverse_temperature) in an update, while an action is not tried. At an infinite
    `inverse_temperature` nothing wanders.

    The authors' code differs from what is written above: its step uses m and v with the new gradient in them, and
    sqrt(v) + epsilon; its loss is the squared error, without the half, where `dqn` has Huber's. On Atari it has an
    `n_step` of 3, not 1, and a new target every 500 updates, not every 100 environment steps, which are 25 updates.
    Memory, a falling learning rate and clipped gradients are options of `dqn`; the authors use none of them.
    """

    example: ClassVar[str] = "forage train langevin-dqn DeepSea-10 --steps 40k"
    ranges: ClassVar[Ranges] = {"bias_factor": Range(0), "inverse_temperature": Range(0, above=True)}

    usual_behaviour: ClassVar[str] = "policy"
    unused: ClassVar[Unused] = {
        "optimiser": ("langevin-dqn is an optimiser itself and takes no other", "take dqn"),
        "recycle_interval": "langevin-dqn never settles on weights to recycle",
    }

    learning_rate: float = 1e-3
    final_learning_rate: float = 1.0  # reached linearly at the end of the run, as a share of learning_rate
    max_gradient_norm: float | None = None  # none: gradients are not clipped
    bias_factor: float = 1.0  # weight of the adaptive drift; larger follows the gradient's mean more closely
    inverse_temperature: float = 1e4  # precision of the noise on weights; larger explores less
    target_update_interval: int = equinox.field(static=True, default=100)  # environment steps between two updates of
    # the target network; more are steadier and slower
    dueling: bool = equinox.field(static=True, default=False)
    n_step: int = equinox.field(static=True, default=1)

    def init(self, key: Key[Array, ""], spec: Spec) -> LangevinDQNState:
        dqn = super().init(key, spec)
        nothing = jnp.zeros_like(ravel_pytree(dqn.network)[0])
        return LangevinDQNState(dqn.network, dqn.target, Drift(nothing, jnp.copy(nothing)), dqn.updates)

    def descend(
        self, state: LangevinDQNState, gradient: QNetwork, clock: Clock, key: Key[Array, ""]
    ) -> LangevinDQNState:
        weights, unravel = ravel_pytree(state.network)
        slope = ravel_pytree(gradient)[0]
        if self.max_gradient_norm is not None:
            slope = slope * jnp.minimum(1.0, self.max_gradient_norm / jnp.linalg.norm(slope))
        weights, drift = self.step(weights, slope, state.drift, self.rate(clock), key)
        return state._replace(network=unravel(weights), drift=drift)

    def step(
        self,
        weights: Float[Array, " parameters"],
        gradient: Float[Array, " parameters"],
        drift: Drift,
        rate: Float[Array, ""],
        key: Key[Array, ""],
    ) -> tuple[Float[Array, " parameters"], Drift]:
        """Return the weights and the drift after one noisy step down the gradient."""
        down = gradient + self.bias_factor * drift.mean / jnp.sqrt(drift.square + 1e-8)
        noise = jnp.sqrt(2 * rate / self.inverse_temperature) * jax.random.normal(key, weights.shape)
        moved = Drift(0.9 * drift.mean + 0.1 * gradient, 0.999 * drift.square + 0.001 * gradient**2)
        return weights - rate * down + noise, moved
