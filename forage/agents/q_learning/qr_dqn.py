"""Quantile regression DQN (QR-DQN): values as means of learned quantiles of the return.

Dabney, Rowland, Bellemare, Munos (2018), "Distributional Reinforcement Learning with Quantile Regression", arXiv
1710.10044. For each action, N numbers theta_i stand for the quantiles tau_i = (2 i - 1) / 2N of its return, and
Q(s, a) is their mean. With target network theta', each update minimises

    sum_i mean_j |tau_i - [u_ij < 0]| Huber(u_ij),   u_ij = r + ... + discount^n theta'_j(s', a') - theta_i(s, a)

with a' the action of highest Q' (with `double`, of highest Q) and nothing after a terminal state. The Huber loss has
threshold 1. Double targets, dueling streams, n-step returns, masks and prioritised replay are DQN's.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.q_learning.distributional import ReturnNetwork, values_and_targets
from forage.agents.q_learning.dqn import DQN
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Spec
from forage.ops.losses import LossReport
from forage.ops.quantiles import quantile_error


class QuantileNetwork(ReturnNetwork):
    """Quantiles of the return of all actions."""

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: QRDQN):
        super().__init__(key, spec, agent, agent.quantiles)

    def value(self, spread: Float[Array, "*batch actions numbers"]) -> Float[Array, "*batch actions"]:
        return spread.mean(-1)


class QRDQN(DQN):
    """DQN that learns quantiles of the return (Dabney et al., 2018, arXiv 1710.10044).

    The paper has 200 quantiles in Atari; RL Baselines3 Zoo has from 10 to 170 for small tasks. In the paper, and in
    Stable-Baselines3, Adam's epsilon is 0.01 / batch_size; here it is 1e-8 as in `dqn`.
    """

    example: ClassVar[str] = "forage train qr-dqn CartPole-v1"
    ranges: ClassVar[Ranges] = {"quantiles": Range(1)}
    unused: ClassVar[Unused] = {"gru_size": ("QR-DQN has no memory yet", "take dqn")}

    quantiles: int = equinox.field(static=True, default=32)  # numbers for each action's return; more describe it more
    # finely, at more computing; 200 is the paper's

    def network(self, key: Key[Array, ""], spec: Spec) -> QuantileNetwork:
        return QuantileNetwork(key, spec, self)

    def loss(
        self, network: QuantileNetwork, target: QuantileNetwork, batch: Batch, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, ""], LossReport]:
        """Compute the weighted loss; also return the errors of the mean returns, target minus estimate."""
        quantiles, total, bootstrap, after = values_and_targets(self, network, target, batch.experience)
        goal = total[:, None] + bootstrap[:, None] * after
        each = quantile_error(quantiles, goal)
        loss = jnp.mean(batch.weight * self.valid(batch.experience)[0] * each)
        error = goal.mean(1) - quantiles.mean(1)
        return loss, LossReport(error[None], {"loss": loss, "q": quantiles.mean(), "error": jnp.abs(error).mean()})
