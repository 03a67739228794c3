"""PPO-Lagrangian: proximal policy optimisation that keeps a cost below a limit.

Ray, Achiam, Amodei (2019), "Benchmarking Safe Exploration in Deep Reinforcement Learning", section 5. It maximises the
return J subject to J_C <= d, where J_C is the mean cost of an episode, not discounted, and d the limit, by

    max over pi, min over lambda >= 0 of   J(pi) - lambda (J_C(pi) - d)

The multiplier takes a projected step of gradient ascent after each rollout in which episodes ended, before the policy
learns from it, and the policy is PPO's for an advantage of both:

    lambda <- max(0, lambda + multiplier_rate (J_C - d)),   A = (A_r - lambda A_c) / (1 + lambda)

The cost has a value function of its own, and GAE as the reward has. Three details differ from the authors' program: it
ascends by Adam through a softplus; its networks of the two values share no layers, which here they do as PPO's streams
do; and it standardises A_r alone, where PPO's `normalise_advantage` standardises A here.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.policy_gradient.rollouts import cut_short, estimate
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.actor_critic import ActorCritic
from forage.nn.normalise import Norms


class LagrangianState(NamedTuple):
    network: ActorCritic
    optimiser: Any
    norm: Norms  # of observations
    multiplier: Float[Array, ""]  # lambda
    cost: Float[Array, " env"]  # of each episode under way


class PPOLagrangian(PPO):
    """PPO that keeps the mean cost of an episode below a limit (Ray, Achiam, Amodei, 2019).

    The cost is one of the environment's several rewards, positive where it is bad; what is maximised is what the
    rewards part makes of them, such as `--rewards weighted --rewards.names reward --rewards.weights 1`.
    """

    example: ClassVar[str] = (
        "forage train ppo-lagrangian grid:LavaToll-S5 --limit 0.25 --rewards weighted --rewards.names reward "
        "--rewards.weights 1"
    )
    ranges: ClassVar[Ranges] = {"limit": Range()}

    cost: str = equinox.field(static=True, default="cost")  # the name of the reward that is to stay below the limit
    limit: float = 25.0  # mean cost of an episode, not discounted, that is allowed; larger is more permissive, 25 is
    # the authors'
    cost_discount: float = 0.99  # worth of a cost one step later; 0.99 is the authors'
    initial_multiplier: float = 1.0  # lambda before the first rollout; 1 is the authors'
    multiplier_rate: float = 0.05  # how far lambda moves for each unit of cost beyond the limit; the authors' step size

    @property
    def reward_heads(self) -> tuple[str, ...]:
        return (*super().reward_heads, self.cost)

    def init(self, key: Key[Array, ""], spec: Spec) -> LagrangianState:  # type: ignore[override]
        costs = jnp.zeros(self.num_envs * spec.num_agents)
        return LagrangianState(*super().init(key, spec), jnp.asarray(self.initial_multiplier, jnp.float32), costs)

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        experience = batch.experience
        under_way, totals = episode_totals(state.cost, experience.rewards[self.cost], experience.ended)
        ended = experience.ended & experience.counts
        excess = jnp.where(ended, totals - self.limit, 0.0).sum() / jnp.maximum(ended.sum(), 1)
        multiplier = jnp.maximum(state.multiplier + self.multiplier_rate * excess, 0.0)
        state = state._replace(multiplier=multiplier, cost=under_way)
        state, metrics, errors = super().learn(state, batch, clock, key)
        return state, metrics | {"multiplier": multiplier}, errors

    def truncate(self, state: LagrangianState) -> LagrangianState:
        return state._replace(cost=jnp.zeros_like(state.cost))

    def advantages(
        self,
        experience: Experience,
        value: Float[Array, "time env streams"],
        next_value: Float[Array, "time env streams"],
        gae_lambda: Any,
    ) -> Float[Array, "time env streams"]:
        rewarded = super().advantages(experience, value, next_value, gae_lambda)
        cost, ends = experience.rewards[self.cost], (experience.terminated, cut_short(experience))
        costs = estimate(cost, value[..., -1], next_value[..., -1], *ends, self.cost_discount, gae_lambda)
        return jnp.concatenate([rewarded, costs[..., None]], -1)

    def combine_advantages(
        self, state: LagrangianState, advantages: Float[Array, "time env streams"]
    ) -> Float[Array, "time env"]:
        rewarded, cost = advantages[..., :-1].sum(-1), advantages[..., -1]
        return (rewarded - state.multiplier * cost) / (1 + state.multiplier)


def episode_totals(
    before: Float[Array, " env"], cost: Float[Array, "time env"], ended: Bool[Array, "time env"]
) -> tuple[Float[Array, " env"], Float[Array, "time env"]]:
    """Sum costs from each episode's first step. Return the running sums after the rollout, and the sum at each step."""

    def step(total: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        cost, ended = inputs
        total = total + cost
        return jnp.where(ended, 0.0, total), total

    return jax.lax.scan(step, before, (cost, ended))
