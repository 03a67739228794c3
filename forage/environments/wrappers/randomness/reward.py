"""Noisy and lost rewards."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from forage.core.ports import State
from forage.core.types import Step
from forage.environments.wrappers.base import Wrapper, check_least, check_share


class RewardNoise(Wrapper):
    """Noisy and lost rewards: `r' = (1 - b) r + reward_noise e`.

    b is 1 with probability `reward_loss`, else 0, and e is standard normal. Of a vector reward every entry has noise of
    its own, and all are lost together. What an episode is worth is counted with the noise, whose mean is 0.

    Source: type 2.1 of Barsainyan, Lim, Liu (2025), "STORI: A Benchmark and Taxonomy for Stochastic Environments",
    arXiv 2509.01793, where rewards are lost with probability 0.25 or 0.3; the normal noise is the usual addition.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --wrap reward-noise:0.5:0.25"

    changes_reward: ClassVar[bool] = True

    reward_noise: float = 0.0  # standard deviation of what is added to rewards, in their units
    reward_loss: float = 0.0  # probability that a step's reward is 0

    def __check_init__(self):
        check_least(self, "reward_noise", self.reward_noise, 0)
        check_share(self, "reward_loss", self.reward_loss)

    def step(self, state: State, action: PyTree[Array], key: Key[Array, ""]) -> tuple[State, Step]:
        state, step = self.environment.step(state, action, key)
        loss_key, noise_key = jax.random.split(self.own_key(key))
        reward = step.reward
        lost = jax.random.uniform(loss_key) < self.reward_loss
        reward = jnp.where(lost, jnp.zeros_like(reward), reward)
        noisy = reward + self.reward_noise * jax.random.normal(noise_key, reward.shape, reward.dtype)
        # Adding 0 would not be exact: it makes 0 of -0.
        return state, step._replace(reward=jnp.where(self.reward_noise > 0, noisy, reward).astype(reward.dtype))
