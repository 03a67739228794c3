"""Rewards scaled to a size that networks can learn."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core.ports import Metrics, Rewards
from forage.core.ranges import Range, Ranges, check_order
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.nn.normalise import RunningNorm
from forage.rewards.environment import EnvironmentReward


class Scale(Rewards):
    """r' = clip(factor r, low, high), with r the reward of `inner`; a bonus for exploration is left unchanged.

    `Scale(1.0, -1.0, 1.0)` is the clipping of Mnih et al. (2015), "Human-level control through deep reinforcement
    learning", Nature 518. A score is of the environment's own reward, so the factor is positive: a negative one would
    have the agent learn the opposite of what it is judged by.
    """

    example: ClassVar[str] = "forage train ppo Pendulum-v1 --rewards scale --rewards.factor 0.1"
    ranges: ClassVar[Ranges] = {"factor": Range(0, math.inf, above=True, below=True), "low": Range(), "high": Range()}

    factor: float = 1.0  # factor of the reward
    low: float = -math.inf  # least reward that is left
    high: float = math.inf  # greatest reward that is left
    inner: Rewards = equinox.field(default_factory=EnvironmentReward)

    def __check_init__(self):
        check_order(self, "low", "high", equal=True)
        if isinstance(self.factor, int | float) and not 0 < self.factor < math.inf:
            raise ForageError(
                f"scale's factor is above 0, not {self.factor:g}: learning the opposite of the reward, an agent "
                f"would be scored by the reward itself. Let the environment return costs as negative rewards; where "
                f"it has several rewards, weighted takes negative weights, and the score has them too."
            )

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
        return self.inner.init(key, spec, num_envs)

    def relabel(self, state: Any, experience: Experience) -> Experience:
        experience = self.inner.relabel(state, experience)
        return experience._replace(reward=jnp.clip(self.factor * experience.reward, self.low, self.high))

    def example_info(self, spec: Spec) -> PyTree[Array]:
        return self.inner.example_info(spec)

    def learn(
        self, state: Any, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, PyTree[Array], Metrics]:
        return self.inner.learn(state, rollout, clock, key)

    def truncate(self, state: Any) -> Any:
        return self.inner.truncate(state)


class DataScale(Rewards):
    """r' = r / s, with s the standard deviation of the rewards of the run's data set, as its numbers are standardised.

    No mean is subtracted, which would change what is best wherever episodes end. The run keeps s. Values and advantages
    in its curve are multiplied by s, so that they are in the units of the data; losses are those of r'.
    """

    example: ClassVar[str] = "forage train iql --data log.csv --rewards data-scale"
    ranges: ClassVar[Ranges] = {"deviation": Range(0, math.inf, above=True, below=True)}
    fits_data: ClassVar[bool] = True

    deviation: float | None = None  # s; by default that of the data set, or 1 if its rewards are all alike

    @property
    def unit(self) -> float | None:
        return self.deviation

    def fit(self, reward: Float[np.ndarray, " transition"]) -> DataScale:
        if self.deviation is not None:
            return self
        found = float(np.std(reward, dtype=np.float64))
        return DataScale(found if found > 1e-9 * max(1.0, float(np.abs(reward).max())) else 1.0)

    def relabel(self, state: Any, experience: Experience) -> Experience:
        return experience._replace(reward=experience.reward / self.deviation)  # pyrefly: ignore[unsupported-operation]


class NormaliseReturnState(NamedTuple):
    inner: Any
    running: Float[Array, " env"]  # discounted return of each episode under way
    norm: RunningNorm  # of all of them, at every step


class NormaliseReturn(Rewards):
    """r' = clip(r / sqrt(Var[G] + epsilon), -limit, limit), with G_t = discount G_(t-1) + r_t in each episode.

    The variance is over every G of every environment so far; its mean is not subtracted from rewards, which would
    change what is best. `discount` is best the agent's own.

    Source: Engstrom, Ilyas, Santurkar, Tsipras, Janoos, Rudolph, Madry (2020), "Implementation Matters in Deep Policy
    Gradients: A Case Study on PPO and TRPO", arXiv 2005.12729, section 3; limit and epsilon as in the `VecNormalize`
    wrapper of OpenAI Baselines.
    """

    example: ClassVar[str] = "forage train ppo Pendulum-v1 --rewards normalise-return"
    ranges: ClassVar[Ranges] = {"limit": Range(0, above=True), "epsilon": Range(0, above=True)}

    discount: float = 0.99  # discount of the running return; best the agent's own
    limit: float = 10.0  # greatest size of a reward that is left; inf clips nothing
    epsilon: float = 1e-8  # added to the variance, so that nothing is divided by 0
    inner: Rewards = equinox.field(default_factory=EnvironmentReward)

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> NormaliseReturnState:
        return NormaliseReturnState(
            self.inner.init(key, spec, num_envs), jnp.zeros(num_envs), RunningNorm.from_shape(())
        )

    def relabel(self, state: NormaliseReturnState, experience: Experience) -> Experience:
        experience = self.inner.relabel(state.inner, experience)
        scaled = experience.reward / jnp.sqrt(state.norm.variance + self.epsilon)
        return experience._replace(reward=jnp.clip(scaled, -self.limit, self.limit))

    def example_info(self, spec: Spec) -> PyTree[Array]:
        return self.inner.example_info(spec)

    def learn(
        self, state: NormaliseReturnState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[NormaliseReturnState, PyTree[Array], Metrics]:
        inner, rewards_info, metrics = self.inner.learn(state.inner, rollout, clock, key)
        reward = self.inner.relabel(inner, rollout._replace(rewards_info=rewards_info)).reward
        running, returns = discounted_returns(state.running, reward, rollout.ended, self.discount)
        norm = state.norm.update(returns.reshape(-1), rollout.counts.reshape(-1))
        scale = {"return_scale": jnp.sqrt(norm.variance + self.epsilon)}
        return NormaliseReturnState(inner, running, norm), rewards_info, metrics | scale

    def truncate(self, state: NormaliseReturnState) -> NormaliseReturnState:
        return state._replace(inner=self.inner.truncate(state.inner), running=jnp.zeros_like(state.running))


def discounted_returns(
    running: Float[Array, " env"],
    reward: Float[Array, "time env"],
    ended: Bool[Array, "time env"],
    discount: float | Array,
) -> tuple[Float[Array, " env"], Float[Array, "time env"]]:
    """Compute G_t = discount G_(t-1) + r_t, from G = 0 after each `ended`. Return the running sums, and all G."""

    def step(running: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        reward, ended = inputs
        total = discount * running + reward
        return jnp.where(ended, 0.0, total), total

    return jax.lax.scan(step, running, (reward, ended))
