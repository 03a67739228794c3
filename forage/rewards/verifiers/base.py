"""Helpers for rewards of text answers: the texts of an episode, its verdict, and the place of its reward.

They see whole episodes, leaves `time env ...`, where a turn is a step (`forage.environments.text.environment`): a
context of which nothing is left says that an episode waits for the others, so its last turn is the last with a context.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import Metrics, Rewards
from forage.core.ports.needs import Needs
from forage.core.spaces import Tokens
from forage.core.types import BONUS, Clock, Experience, Spec
from forage.rewards.environment import EnvironmentReward


class TextRewards(Rewards):
    """Rewards of episodes in text, made of those that `inner` gives."""

    needs: ClassVar[Needs] = Needs(observations="text")

    inner: Rewards = equinox.field(default_factory=EnvironmentReward, kw_only=True)

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
        return self.inner.init(key, spec, num_envs)

    def example_info(self, spec: Spec) -> PyTree[Array]:
        return self.inner.example_info(spec)

    def learn(
        self, state: Any, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, PyTree[Array], Metrics]:
        return self.inner.learn(state, rollout, clock, key)

    def truncate(self, state: Any) -> Any:
        return self.inner.truncate(state)


def wrote(experience: Experience) -> Bool[Array, "time env new"]:
    """Return a mask of the tokens in each turn that the policy wrote."""
    return experience.action != Tokens.PAD


def lengths(experience: Experience) -> Int[Array, " env"]:
    """Return the number of tokens that the policy wrote in each episode."""
    return wrote(experience).sum((0, 2))


def last_info(experience: Experience, name: str) -> Float[Array, " env"]:
    """Return the environment's information at each episode's last step, and 0 if there is none."""
    return jnp.nan_to_num(experience.info[name]).sum(0)


def at_the_end(experience: Experience, value: Float[Array, " env"]) -> Float[Array, "time env"]:
    """Return a value of each episode as a reward of its last turn, 0 at all others."""
    context = experience.observation["context"]
    acts = (context != Tokens.PAD).any(-1)
    time = jnp.arange(len(context))[:, None]
    return jnp.where(time == jnp.max(jnp.where(acts, time, 0), 0), value, 0.0)


def with_bonus(experience: Experience, bonus: Float[Array, "time env"]) -> Experience:
    """Return the experience with a bonus added to its bonus reward."""
    paid = experience.rewards[BONUS] + bonus if BONUS in experience.rewards else bonus
    return experience._replace(rewards={**experience.rewards, BONUS: paid})
