"""Shared base of bonuses for exploration: a weight, its schedule, and normalisation."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import Metrics, Rewards
from forage.core.ports.needs import Choices
from forage.core.types import BONUS, Clock, Experience, ForageError, Spec
from forage.nn.normalise import RunningNorm
from forage.rewards.environment import EnvironmentReward
from forage.rewards.scaling import discounted_returns

SCHEDULES = ("fixed", "linear", "exponential", "balanced")


class BonusState(NamedTuple):
    inner: Any
    own: Any  # what the method knows
    weight: Float[Array, ""]  # what novelty is multiplied by, for now
    running: Float[Array, "2 env"]  # discounted returns of novelty and of reward
    returns: RunningNorm  # of those of novelty
    rewarded: RunningNorm  # of those of reward


class Bonus(Rewards):
    """bonus = w(t) i / s, with i the novelty of a transition by the subclass's method.

    s is the standard deviation of the running intrinsic return G = i + discount G of each environment, which goes on
    across the ends of episodes (Burda, Edwards, Storkey, Klimov, 2018, arXiv 1810.12894, section 2.4), or 1 without
    `normalise`. The weight at share x of the run is, by `schedule`:

        fixed         w
        linear        w (1 - x (1 - final_weight))
        exponential   w final_weight^x
        balanced      w std(R), where R = r + discount R is the running return of what is rewarded, once there is any:
                      the bonus stays as large beside the reward, however that is scaled; 1 stands for std(R) before

    The bonus goes beside the reward that `inner` gives; bonuses within one another add up. Where an agent's preset says
    what is made of the reward, such as clipping in Atari games, that stands within.
    """

    choices: ClassVar[Choices] = {"schedule": SCHEDULES}

    weight: float = 1.0
    final_weight: float = 0.01  # weight at the end of the run as a share of `weight`, where the schedule lets it fall
    schedule: str = equinox.field(static=True, default="fixed")  # how the weight goes over the run: fixed, linear,
    # exponential or balanced
    normalise: bool = equinox.field(static=True, default=True)  # novelty is divided by the spread of its discounted
    # return
    norm_discount: float = 0.99  # discount of that return; nearer 1 gives a larger spread, and so a smaller bonus
    inner: Rewards = equinox.field(default_factory=EnvironmentReward)

    def __check_init__(self):
        if self.schedule == "exponential" and isinstance(self.final_weight, int | float) and self.final_weight == 0:
            raise ForageError(
                "No weight falls to 0 exponentially: all bonus after the first rollout would be 0; take a small "
                "final_weight such as 0.001, or the schedule linear."
            )

    @abc.abstractmethod
    def begin(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
        """Return the method's state before the first observation."""

    @abc.abstractmethod
    def novelty(self, own: Any, experience: Experience) -> Float[Array, "time batch"]:
        """i of each transition (leaves `time batch ...`); its information is in `experience.rewards_info`."""

    @abc.abstractmethod
    def study(
        self, own: Any, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, PyTree[Array], Metrics]:
        """Learn from a new rollout (leaves `time env ...`); return the method's state, rewards' information and
        metrics.
        """

    def forget(self, own: Any) -> Any:
        """Return the method's state after the running episodes were lost."""
        return own

    def remark(self, spec: Spec) -> PyTree[Array]:
        """Return an example of the method's information on one transition."""
        return ()

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> BonusState:
        inner_key, own_key = jax.random.split(key)
        return BonusState(
            self.inner.init(inner_key, spec, num_envs),
            self.begin(own_key, spec, num_envs),
            jnp.asarray(self.weight, jnp.float32),
            jnp.zeros((2, num_envs)),
            RunningNorm.from_shape(()),
            RunningNorm.from_shape(()),
        )

    def example_info(self, spec: Spec) -> PyTree[Array]:
        return self.inner.example_info(spec), self.remark(spec)

    def relabel(self, state: BonusState, experience: Experience) -> Experience:
        within, own = experience.rewards_info
        given = self.inner.relabel(state.inner, experience._replace(rewards_info=within))
        bonus = self.scale_novelty(state, self.novelty(state.own, experience._replace(rewards_info=own)))
        paid = given.rewards[BONUS] + bonus if BONUS in given.rewards else bonus
        return given._replace(rewards={**given.rewards, BONUS: paid})

    def scale_novelty(self, state: BonusState, novelty: Float[Array, "time batch"]) -> Float[Array, "time batch"]:
        return state.weight * (novelty / jnp.sqrt(state.returns.variance + 1e-8) if self.normalise else novelty)

    def learn(
        self, state: BonusState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[BonusState, PyTree[Array], Metrics]:
        inner_key, own_key = jax.random.split(key)
        inner, within, metrics = self.inner.learn(state.inner, rollout, clock, inner_key)
        own, rewards_info, own_metrics = self.study(state.own, rollout, clock, own_key)
        state = state._replace(inner=inner, own=own)
        novelty = self.novelty(own, rollout._replace(rewards_info=rewards_info))
        never, counts = jnp.zeros_like(rollout.ended), rollout.counts.reshape(-1)
        running, returns, rewarded = state.running, state.returns, state.rewarded
        if self.normalise:
            now, seen = discounted_returns(running[0], novelty, never, self.norm_discount)
            running, returns = running.at[0].set(now), returns.update(seen.reshape(-1), counts)
        if self.schedule == "balanced":
            reward = self.inner.relabel(inner, rollout._replace(rewards_info=within)).reward
            now, seen = discounted_returns(running[1], reward, rollout.ended, self.norm_discount)
            running, rewarded = running.at[1].set(now), rewarded.update(seen.reshape(-1), counts)
        state = state._replace(
            running=running, returns=returns, rewarded=rewarded, weight=self.scheduled_weight(rewarded, clock)
        )
        bonus = jnp.sum(self.scale_novelty(state, novelty) * rollout.counts) / jnp.maximum(rollout.counts.sum(), 1)
        return state, (within, rewards_info), metrics | own_metrics | {"bonus": bonus, "bonus_weight": state.weight}

    def truncate(self, state: BonusState) -> BonusState:
        return state._replace(
            inner=self.inner.truncate(state.inner),
            own=self.forget(state.own),
            running=state.running.at[1].set(0.0),  # the first, of novelty, goes on across the ends of episodes
        )

    def scheduled_weight(self, rewarded: RunningNorm, clock: Clock) -> Float[Array, ""]:
        """Return the weight after a rollout that began at `clock`."""
        factor = {
            "fixed": lambda: jnp.ones(()),
            "linear": lambda: 1 - clock.fraction * (1 - self.final_weight),
            "exponential": lambda: jnp.power(self.final_weight, clock.fraction),
            "balanced": lambda: jnp.where(rewarded.variance > 0, jnp.sqrt(rewarded.variance), 1.0),
        }[self.schedule]()
        return jnp.asarray(self.weight * factor, jnp.float32)
