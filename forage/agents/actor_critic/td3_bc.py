"""TD3 with a term of behaviour cloning: a policy that climbs the critics and stays near the data.

Fujimoto, Gu (2021), "A Minimalist Approach to Offline Reinforcement Learning", arXiv 2106.06860. The critics learn as
in TD3; every `policy_delay`-th update also takes a step of the policy down

    -lambda mean(Q_1(s, pi(s))) + mean((pi(s) - a)^2),   lambda = alpha / mean |Q_1(s, pi(s))|, held fixed

over the data's states s and actions a, the squares a mean over the batch and the action's numbers. Observations are
normalised by the mean and deviation of the whole data set, (s - mean) / (deviation + 0.001). The update, sizes and
numbers are those of the authors' program (sfujim/TD3_BC: TD3_BC.py, main.py); the paper's tables could not be looked
up. Here a normalised observation lies within -10 and 10, which theirs may leave.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.actor_critic.td3 import TD3, Actor
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.critics import ActionValue
from forage.nn.normalise import Norms, RunningNorm, normalised, norms_for, read_after, updated
from forage.ops.minibatches import weighted_mean

LEAST_DEVIATION = 1e-3  # added to deviations, as in the authors' program


class TD3BCState(NamedTuple):
    actor: Actor
    critics: ActionValue  # leaves [critic, ...]
    target_actor: Actor
    target_critics: ActionValue
    actor_optimiser: Any
    critic_optimiser: Any
    updates: Int[Array, ""]
    norm: Norms


class TD3BC(TD3):
    """TD3 that imitates as it climbs (Fujimoto and Gu, 2021, arXiv 2106.06860), from a data set."""

    example: ClassVar[str] = "forage train td3-bc Pendulum-v1 --data mixed.npz"
    ranges: ClassVar[Ranges] = {"alpha": Range(0)}

    offline: ClassVar[bool] = True

    alpha: float = 2.5  # weight of the critics beside imitation; 0 imitates alone, larger trusts the critics more;
    # the paper's for all its tasks
    normalise_observation: bool = equinox.field(static=True, default=True)  # observations are standardised by the data
    # set's mean and deviation, as in the paper

    def init(self, key: Key[Array, ""], spec: Spec) -> TD3BCState:
        norm = norms_for(spec, self.normalise_observation)
        if norm is not None:
            spec = dataclasses.replace(spec, observation_space=read_after(spec.observation_space, norm))
        return TD3BCState(**super().init(key, spec)._asdict(), norm=norm)

    def primed(self, state: TD3BCState, data: Experience) -> TD3BCState:
        """Return the state with the mean and deviation of the data set's observations."""
        seen = jax.tree.map(lambda x: x[None], split_mask(data.observation)[0])
        norm = updated(state.norm, seen, jnp.ones((1, len(data.reward)), bool))
        return state._replace(norm=jax.tree.map(widened, norm, is_leaf=lambda x: isinstance(x, RunningNorm)))

    def act(
        self,
        state: TD3BCState,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        key: Key[Array, ""],
        explore: bool,
        noise: Float[Array, " dimensions"] | None = None,
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        return super().act(state, hidden, normalised(state.norm, observation), key, explore, noise)

    def learn(
        self, state: TD3BCState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[TD3BCState, Metrics, Float[Array, " batch"]]:
        norm = jax.vmap(jax.vmap(lambda observation: normalised(state.norm, observation)))
        experience = batch.experience._replace(
            observation=norm(batch.experience.observation), next_observation=norm(batch.experience.next_observation)
        )
        return super().learn(state, batch._replace(experience=experience), clock, key)

    def actor_loss(
        self,
        actor: Actor,
        critics: ActionValue,
        observation: PyTree[Array],
        counts: Bool[Array, " batch"] | None = None,
        action: Float[Array, "batch dimensions"] | None = None,
    ) -> Float[Array, ""]:
        """Compute the loss above: the value relative to its size, and the squared distance from what was done."""
        assert action is not None
        own = actor(observation)
        value = self.climbed(critics, observation, own)
        size = jax.lax.stop_gradient(weighted_mean(jnp.abs(value), counts))
        distance = weighted_mean(self.distance(own, action), counts)
        return distance - self.alpha * weighted_mean(value, counts) / jnp.maximum(size, 1e-8)

    def distance(
        self, own: Float[Array, "batch dimensions"], action: Float[Array, "batch dimensions"]
    ) -> Float[Array, " batch"]:
        """Compute how far the policy is from what was done: the mean of squares over the action's numbers."""
        return jnp.mean((own - action) ** 2, axis=-1)


def widened(norm: RunningNorm) -> RunningNorm:
    """Return the norm with `LEAST_DEVIATION` added to its deviations."""
    return norm._replace(variance=(jnp.sqrt(norm.variance) + LEAST_DEVIATION) ** 2)
