"""TD3 with a term of behaviour cloning: a policy that maximises the critics and stays near the data.

Fujimoto, Gu (2021), "A Minimalist Approach to Offline Reinforcement Learning", arXiv 2106.06860. The critics learn as
in TD3; every `policy_delay`-th update also takes a step of the policy down

    -lambda mean(Q_1(s, pi(s))) + mean((pi(s) - a)^2),   lambda = alpha / mean |Q_1(s, pi(s))|, held fixed

over the data's states s and actions a, the squares a mean over the batch and the action's numbers. Observations are
normalised by the mean and deviation of the whole data set, (s - mean) / (deviation + 0.001). The update, sizes and
numbers are those of the authors' program (sfujim/TD3_BC: TD3_BC.py, main.py); the paper's tables could not be looked
up. Here a normalised observation lies within -10 and 10, which theirs may leave.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.td3 import TD3, DeterministicActor
from forage.core.ports import Metrics, State
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience
from forage.nn.normalise import RunningNorm
from forage.ops.rows import weighted_mean

LEAST_DEVIATION = 1e-3  # added to deviations, as in the authors' program


class TD3BC(TD3):
    """TD3 that imitates as it maximises (Fujimoto and Gu, 2021, arXiv 2106.06860), from a data set."""

    example: ClassVar[str] = "forage train td3-bc Pendulum-v1 --data mixed.npz"
    ranges: ClassVar[Ranges] = {"alpha": Range(0)}

    offline: ClassVar[bool] = True

    alpha: float = 2.5  # weight of the critics beside imitation; 0 imitates alone, larger trusts the critics more;
    # the paper's for all its tasks
    normalise_observation: bool = equinox.field(static=True, default=True)  # observations are standardised by the data
    # set's mean and deviation, as in the paper

    def init_from_dataset(self, state: State, data: Experience) -> State:
        """Return the state with the mean and deviation of the data set's observations."""
        norm = super().init_from_dataset(state, data).norm
        return state._replace(norm=jax.tree.map(widen_norm, norm, is_leaf=lambda x: isinstance(x, RunningNorm)))

    def actor_loss(
        self, actor: DeterministicActor, state: State, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss above: the value relative to its size, and the squared distance from the action taken."""
        observation, counts = inputs.now.observation, inputs.now.counts
        own = actor(observation)
        value = self.policy_value(state.critics, observation, own)
        size = jax.lax.stop_gradient(weighted_mean(jnp.abs(value), counts))
        distance = weighted_mean(self.distance(own, inputs.action), counts)
        return distance - self.alpha * weighted_mean(value, counts) / jnp.maximum(size, 1e-8), {}

    def distance(
        self, own: Float[Array, "batch dimensions"], action: Float[Array, "batch dimensions"]
    ) -> Float[Array, " batch"]:
        """Compute the policy's distance from the action taken: the mean of squares over the action's numbers."""
        return jnp.mean((own - action) ** 2, axis=-1)


def widen_norm(norm: RunningNorm) -> RunningNorm:
    """Return the norm with `LEAST_DEVIATION` added to its deviations."""
    return norm._replace(variance=(jnp.sqrt(norm.variance) + LEAST_DEVIATION) ** 2)
