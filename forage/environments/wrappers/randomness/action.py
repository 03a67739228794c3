"""Corrupted actions."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
from jaxtyping import Array, Key, PyTree

from forage.core import spaces
from forage.core.types import Step
from forage.environments.wrappers.base import Wrapper, WrapperState, check_share, per_agent, select_tree


class ActionNoise(Wrapper):
    """Corrupted actions: with probability `action_noise` a uniform one is taken in place of the chosen one.

    Where a mask says which actions are allowed, it is one of those.

    Source: type 1 of Barsainyan, Lim, Liu (2025), "STORI: A Benchmark and Taxonomy for Stochastic Environments",
    arXiv 2509.01793, where the probability is 0.3.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --wrap action-noise:0.3"

    action_noise: float = 0.3  # probability that another action is taken, in each step

    remembers = True  # which actions the last observation allowed

    def __check_init__(self):
        check_share(self, "action_noise", self.action_noise)

    def reset(self, key: Key[Array, ""]) -> tuple[WrapperState, PyTree[Array]]:
        inner, observation = self.environment.reset(key)
        return WrapperState(inner, spaces.split_mask(observation)[1]), observation

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        coin_key, action_key = jax.random.split(self.own_key(key))
        corrupted = jax.random.uniform(coin_key) < self.action_noise
        action = select_tree(corrupted, self._any(action_key, state.own), action)
        inner, step = self.environment.step(state.inner, action, key)
        return WrapperState(inner, spaces.split_mask(step.observation)[1]), step

    def _any(self, key: Key[Array, ""], mask: Any) -> PyTree[Array]:
        space = self.inner_spaces[1]
        if mask is not None and mask.ndim > 1:  # a mask for each agent
            keys = jax.random.split(key, len(mask))
            return jax.vmap(lambda key, mask: spaces.sample(space, key, mask))(keys, mask)
        return per_agent(self, lambda key: spaces.sample(space, key, mask), key)
