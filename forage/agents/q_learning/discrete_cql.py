"""Conservative Q-learning for numbered actions: values of actions that the data lack are pushed down.

Kumar, Zhou, Tucker, Levine (2020), "Conservative Q-Learning for Offline Reinforcement Learning", arXiv 2006.04779, the
variant CQL(H). Deep Q-learning that minimises

    mean(Huber(y - Q(s, a))) + conservatism mean(log sum_b exp Q(s, b) - Q(s, a)),   y = r + discount Q'(s', a')

over the actions b that are allowed, a' being the best one at s'. The authors' Atari agent is built on quantile
regression, with a weight of 1 for a tenth of the games' replay and 4 for a hundredth (README of aviralkumar2907/CQL);
this one is built on double Q-learning. The paper's tables could not be looked up.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.q_learning.dqn import DQN, QNetwork
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import Batch
from forage.ops.action_values import take_values
from forage.ops.losses import LossReport


class DiscreteCQL(DQN):
    """Double DQN with conservative values (Kumar et al., 2020, arXiv 2006.04779, CQL(H)), from a data set."""

    example: ClassVar[str] = "forage train discrete-cql CartPole-v1 --data mixed.npz"
    ranges: ClassVar[Ranges] = {"conservatism": Range(0)}

    offline: ClassVar[bool] = True
    unused: ClassVar[Unused] = {
        "gru_size": "DiscreteCQL has no memory, as a data set does not tell its state",
        "noisy": "DiscreteCQL learns from data and explores nothing",
    }

    conservatism: float = 1.0  # weight of the gap between all actions' values and the data's; larger lowers values
    # more; the authors' for the larger data
    final_learning_rate: float = 1.0  # reached linearly at the end of the run, as a share of learning_rate
    n_step: int = equinox.field(static=True, default=1)  # steps of the returns; more are of the recorded policy
    dueling: bool = equinox.field(static=True, default=False)

    def loss(
        self, network: QNetwork, target: QNetwork, batch: Batch, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, ""], LossReport]:
        loss, report = super().loss(network, target, batch, key)
        now = batch.transitions
        q, mask = network.rows(now.observation), split_mask(now.observation)[1]
        pushed = jax.nn.logsumexp(q if mask is None else jnp.where(mask, q, -jnp.inf), axis=-1)
        gap = jnp.mean(batch.weight * self.valid(batch.experience)[0] * (pushed - take_values(q, now.action)))
        return loss + self.conservatism * gap, report | {"gap": gap}
