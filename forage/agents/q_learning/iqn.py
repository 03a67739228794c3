"""Implicit quantile networks (IQN): values as means of quantiles of the return, for any share in (0, 1).

Dabney, Ostrovski, Silver, Munos (2018), "Implicit Quantile Networks for Distributional Reinforcement Learning", arXiv
1806.06923. From features psi(s) and a share tau in (0, 1) the network computes the quantile Z_tau(s, a) of the return
as

    f(psi(s) * phi(tau))_a,   phi(tau) = relu(W (cos(0), cos(pi tau), ..., cos(pi (n - 1) tau)) + b)      (equation 4)

and Q(s, a) is the mean over shares. With tau_i and tau'_j drawn uniformly for each row, and target network Z',

    sum_i mean_j |tau_i - [u_ij < 0]| Huber(u_ij),   u_ij = r + ... + discount^n Z'_tau'_j(s', a') - Z_tau_i(s, a)

is minimised, with a' the action of highest Q' (with `double`, of highest Q) and nothing after a terminal state. The
Huber loss has threshold 1.

Differences from the paper: actions, also a', are chosen by the mean over the `act_samples` shares (2k - 1) / 2K in
place of drawn ones, so that a policy plays the same action twice; double targets, dueling streams (whose features are
multiplied by phi before the streams part) and longer returns are DQN's, and the paper has none of them. Adam's epsilon
is 1e-8, there 0.01 / batch_size.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.q_learning.dqn import DQN, QNetwork
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import Batch, Spec
from forage.nn.layers import Linear
from forage.ops.action_values import best_action, take_values
from forage.ops.losses import LossReport
from forage.ops.quantiles import quantile_error


class ImplicitNetwork(QNetwork):
    """Quantiles of the return of all actions, of any share."""

    embedding: Linear  # from cosines of a share to a factor for each feature
    act_samples: int = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: IQN):
        super().__init__(key, spec, agent)
        self.embedding = Linear(jax.random.fold_in(key, 1), agent.cosines, self.torso.size)
        self.act_samples = agent.act_samples

    def quantiles(
        self, features: Float[Array, " features"], share: Float[Array, " samples"]
    ) -> Float[Array, "samples actions"]:
        """Return the quantiles of these shares."""
        cosines = jnp.cos(jnp.pi * jnp.arange(self.embedding.weight.shape[0]) * share[:, None])
        factors = jax.nn.relu(self.embedding(cosines))
        return jax.vmap(super().q)(features * factors)

    def q(self, features: Float[Array, " features"]) -> Float[Array, " actions"]:
        """Return the mean over evenly spread shares."""
        share = (jnp.arange(self.act_samples) + 0.5) / self.act_samples
        return self.quantiles(features, share).mean(0)

    def quantile_rows(
        self, observations: PyTree[Array], share: Float[Array, "rows samples"]
    ) -> Float[Array, "rows samples actions"]:
        """Return the quantiles of many observations (leaves `rows ...`)."""
        return jax.vmap(self.quantiles)(self.torso.rows(observations), share)


class IQN(DQN):
    """DQN that learns quantiles of the return of any share (Dabney et al., 2018, arXiv 1806.06923)."""

    example: ClassVar[str] = "forage train iqn CartPole-v1"
    ranges: ClassVar[Ranges] = {
        "samples": Range(1),
        "target_samples": Range(1),
        "act_samples": Range(1),
        "cosines": Range(1),
    }
    unused: ClassVar[Unused] = {
        "gru_size": ("IQN has no memory yet", "take dqn"),
        "recycle_interval count_dormant": ("IQN's features are multiplied by those of a share", "take dqn"),
    }

    samples: int = equinox.field(static=True, default=64)  # shares drawn for each estimate, N; the paper's
    target_samples: int = equinox.field(static=True, default=64)  # shares drawn for each target, N'; the paper's
    act_samples: int = equinox.field(static=True, default=32)  # shares that an action is chosen by, K; the paper's
    cosines: int = equinox.field(static=True, default=64)  # cosines that describe a share, n; the paper's

    def network(self, key: Key[Array, ""], spec: Spec) -> ImplicitNetwork:
        return ImplicitNetwork(key, spec, self)

    def loss(
        self, network: ImplicitNetwork, target: ImplicitNetwork, batch: Batch, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, ""], LossReport]:
        """Compute the weighted loss; report the errors of the mean returns, target minus estimate."""
        assert key is not None, "shares are drawn"
        experience = batch.experience
        total, last, bootstrap = (x[0] for x in self.fold(experience))
        rows = jnp.arange(last.shape[0])
        after = jax.tree.map(lambda x: x[last, rows], experience.next_observation)
        now = jax.tree.map(lambda x: x[0], experience.observation)
        share, next_share = (
            jax.random.uniform(key, (len(rows), number))
            for key, number in zip(jax.random.split(key), (self.samples, self.target_samples), strict=True)
        )
        taken = jax.vmap(jax.vmap(take_values, (0, None)))
        action = best_action((network if self.double else target).rows(after), split_mask(after)[1])
        goal = total[:, None] + bootstrap[:, None] * taken(target.quantile_rows(after, next_share), action)
        goal = jax.lax.stop_gradient(goal)
        quantiles = taken(network.quantile_rows(now, share), experience.action[0])
        each = quantile_error(quantiles, goal, share)
        loss = jnp.mean(batch.weight * self.valid(experience)[0] * each)
        error = goal.mean(1) - quantiles.mean(1)
        return loss, LossReport(error[None], {"loss": loss, "q": quantiles.mean(), "error": jnp.abs(error).mean()})
