"""Adversarial inverse reinforcement learning: a discriminator that separates a reward from its shaping."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import Metrics
from forage.core.types import Clock, Experience, Spec
from forage.nn.distributions import Actions
from forage.rewards.adversarial.base import (
    Discriminating,
    DiscriminatorInputs,
    DiscriminatorState,
    Policy,
    Sight,
    StoredRows,
)


class ShapedReward(equinox.Module):
    """The reward g and the potential h of AIRL."""

    reward: Sight
    potential: Sight
    actions: Actions = equinox.field(static=True)


class AIRL(Discriminating):
    """AIRL: D = exp f(s, a, s') / (exp f(s, a, s') + pi(a|s)), f = g(s, a) + discount h(s') - h(s).

    pi is the agent as it is, asked at each rollout, so that f learns the demonstrator's advantages and g, up to a
    constant, a reward whose best policy is the demonstrator's. What is paid is log D - log(1 - D) = f - log pi, with
    the log-probability of the time when the action was taken; without `entropy` it is f alone, for agents that pay
    themselves for entropy: `sac` with a temperature near 1. With `state_only` g sees no action, as for rewards that
    are to hold where actions have other effects.

    Works with agents that draw their actions and have no memory. The environment's reward is not used to learn. Ends
    of episodes, the gradient penalty and the transitions kept are as in `gail` (`forage.rewards.adversarial.base`); the
    paper has neither of the first two. Step size, sizes and batches are those of `gail` here; the paper's, and the
    numbers of its equations, could not be looked up.

    Source: Fu, Luo, Levine (2018), "Learning Robust Rewards with Adversarial Inverse Reinforcement Learning", arXiv
    1710.11248.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --rewards airl --rewards.demonstrations expert.npz"

    asks: ClassVar[bool] = True

    entropy: bool = equinox.field(static=True, default=True)  # -log pi(a|s) is paid as well
    state_only: bool = equinox.field(static=True, default=False)  # the reward g sees no action

    def build(self, key: Key[Array, ""], shape: tuple[int, ...], space: spaces.Space) -> ShapedReward:
        reward_key, potential_key = jax.random.split(key)
        actions = Actions.from_space(space)
        more = 1 if self.state_only else actions.outputs + 1
        return ShapedReward(Sight(reward_key, shape, more, self), Sight(potential_key, shape, 1, self), actions)

    def verdict(self, network: ShapedReward, seen: DiscriminatorInputs) -> Float[Array, " row"]:
        action = () if self.state_only else (seen.action,)
        reward = network.reward(seen.observation, *action, seen.absorbing)
        before = network.potential(seen.observation, seen.absorbing)
        return reward + self.discount * network.potential(seen.next_observation, seen.ends) - before

    def pay(self, verdict: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return verdict

    def example_info(self, spec: Spec) -> PyTree[Array]:
        return jnp.zeros(())

    def relabel(self, state: DiscriminatorState, experience: Experience) -> Experience:
        paid = super().relabel(state, experience)
        return paid._replace(reward=paid.reward - experience.rewards_info) if self.entropy else paid

    def learn(
        self,
        state: DiscriminatorState,
        rollout: Experience,
        clock: Clock,
        key: Key[Array, ""],
        policy: Policy | None = None,
    ) -> tuple[DiscriminatorState, PyTree[Array], Metrics]:
        assert policy is not None
        state, _, metrics = super().learn(state, rollout, clock, key, policy)
        rows = StoredRows.from_rollout(rollout)
        return state, policy(rows.observation, rows.action).reshape(rollout.ended.shape), metrics
