"""Categorical DQN (C51): values as means of a learned distribution over fixed returns.

Bellemare, Dabney, Munos (2017), "A Distributional Perspective on Reinforcement Learning", arXiv 1707.06887. The return
of each action is distributed over N atoms z_i, evenly from `low` to `high`; the network gives the logits of
p_i(s, a), and Q(s, a) = sum_i z_i p_i(s, a). With target network p', each update minimises the cross-entropy

    -sum_i m_i log p_i(s, a)

where m shares the probability p'_j(s', a') of each r + ... + discount^n z_j, cut to [low, high], between the two atoms
beside it, the nearer one getting more. a' is the action of highest Q' (with `double`, of highest Q), and after a
terminal state only the return counts. Double targets, dueling streams, n-step returns, masks and prioritised replay are
DQN's: with all of them and noisy layers it is `rainbow`, whose priorities, the divergence of p from m, are C51's here.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy
from jaxtyping import Array, Float, Key

from forage.agents.q_learning.distributional import ReturnNetwork, values_and_targets
from forage.agents.q_learning.dqn import DQN
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges, check_order
from forage.core.types import Batch, Spec
from forage.ops.losses import LossReport


class CategoricalNetwork(ReturnNetwork):
    """Logits of the distribution of the return of all actions."""

    low: float = equinox.field(static=True)
    high: float = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: C51):
        super().__init__(key, spec, agent, agent.atoms)
        self.low, self.high = agent.low, agent.high

    @property
    def support(self) -> Float[Array, " atoms"]:
        """Return the returns that the atoms stand for."""
        return jnp.linspace(self.low, self.high, self.numbers)

    def value(self, spread: Float[Array, "*batch actions numbers"]) -> Float[Array, "*batch actions"]:
        return jax.nn.softmax(spread) @ self.support


class C51(DQN):
    """Categorical DQN (Bellemare et al., 2017, arXiv 1707.06887), with CleanRL's atoms for small tasks.

    The paper has 51 atoms from -10 to 10, for the clipped rewards of Atari games. In the paper, and in CleanRL, Adam's
    epsilon is 0.01 / batch_size, here 1e-8 as in `dqn`; CleanRL has no gradient for probabilities below 1e-5.
    """

    example: ClassVar[str] = "forage train c51 CartPole-v1"
    ranges: ClassVar[Ranges] = {"atoms": Range(2), "low": Range(), "high": Range()}
    unused: ClassVar[Unused] = {"gru_size": ("C51 has no memory yet", "take dqn")}

    atoms: int = equinox.field(static=True, default=101)  # returns that are told apart, evenly from low to high
    low: float = equinox.field(static=True, default=-100.0)  # the lowest return; what is below counts as this
    high: float = equinox.field(static=True, default=100.0)  # the highest return; what is above counts as this

    def check(self, spec: Spec) -> None:
        check_order(self, "low", "high")
        super().check(spec)

    def network(self, key: Key[Array, ""], spec: Spec) -> CategoricalNetwork:
        return CategoricalNetwork(key, spec, self)

    def loss(
        self, network: CategoricalNetwork, target: CategoricalNetwork, batch: Batch, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, ""], LossReport]:
        """Compute the weighted loss; also return the divergence of each prediction from its target."""
        logits, total, bootstrap, after = values_and_targets(self, network, target, batch.experience)
        moved = total[:, None] + bootstrap[:, None] * network.support
        goal = project_atoms(jax.nn.softmax(after), moved, network.support)
        entropy = -xlogy(goal, goal).sum(1)
        each = -jnp.sum(goal * jax.nn.log_softmax(logits), axis=1)
        loss = jnp.mean(batch.weight * self.valid(batch.experience)[0] * each)
        q = jax.nn.softmax(logits) @ network.support
        error = jnp.abs(goal @ network.support - q)
        return loss, LossReport((each - entropy)[None], {"loss": loss, "q": q.mean(), "error": error.mean()})


def project_atoms(
    probability: Float[Array, "batch atoms"], moved: Float[Array, "batch atoms"], places: Float[Array, " atoms"]
) -> Float[Array, "batch atoms"]:
    """Share the probability of each moved atom between its two neighbours in `places` (equation 7)."""
    gap = places[1] - places[0]
    distance = jnp.abs(jnp.clip(moved, places[0], places[-1])[:, None, :] - places[:, None])
    return jnp.sum(jnp.clip(1 - distance / gap, 0.0, 1.0) * probability[:, None, :], axis=2)
