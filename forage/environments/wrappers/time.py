"""Wrappers of time: step limits, the clock in the observation, repeated actions."""

from __future__ import annotations

from typing import ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.types import ForageError, Step
from forage.environments.wrappers.base import (
    Wrapper,
    WrapperState,
    check_least,
    environment_name,
    flat_box,
    select_tree,
    smaller_limit,
)


class TimeLimit(Wrapper):
    """A limit of `limit` steps before truncation; an earlier limit of the environment's still counts.

    A step that ends the task at the same time is terminated, not truncated.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --wrap time-limit:200"

    limit: int  # steps after which an episode is truncated

    remembers = True

    def __check_init__(self):
        check_least(self, "limit", self.limit, 1)

    @property
    def horizon(self) -> int | None:
        return smaller_limit(self.limit, self.environment.horizon)

    def reset(self, key: Key[Array, ""]) -> tuple[WrapperState, PyTree[Array]]:
        inner, observation = self.environment.reset(key)
        return WrapperState(inner, jnp.zeros((), jnp.int32)), observation

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        inner, step = self.environment.step(state.inner, action, key)
        time = state.own + 1
        truncated = (step.truncated | (time >= self.limit)) & ~step.terminated
        return WrapperState(inner, time), step._replace(truncated=truncated)


class TimeAware(Wrapper):
    """Appends the remaining time to a flat observation: `2 (T - t) / T - 1`, 1 at the start and -1 at the limit T.

    Where the limit is part of the task, what an agent can still earn depends on the time that is left. `final` says
    so to the agent's value, too: the end of the clock then counts as terminated, and nothing comes after it.

    Source: Pardo, Tavakoli, Levdik, Kormushev (2018), "Time Limits in Reinforcement Learning", arXiv 1712.00378.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --wrap time-limit:200 --wrap time-aware"

    final: bool = equinox.field(static=True, default=False)  # the end of the clock is the end of the task

    remembers = True

    def __check_init__(self):
        flat_box(self)
        if self.environment.horizon is None:
            raise ForageError(
                f"TimeAware shows the time that is left, and {environment_name(self.environment)} has no limit; "
                f"wrap it in a time limit first, as in --wrap time-limit:500 --wrap time-aware."
            )

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        space = flat_box(self)
        return gymnasium.spaces.Box(
            np.append(space.low, np.float32(-1)), np.append(space.high, np.float32(1)), dtype=np.float32
        )

    def reset(self, key: Key[Array, ""]) -> tuple[WrapperState, Float[Array, " all"]]:
        inner, observation = self.environment.reset(key)
        time = jnp.zeros((), jnp.int32)
        return WrapperState(inner, time), self._append(observation, time)

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        inner, step = self.environment.step(state.inner, action, key)
        time = state.own + 1
        step = step._replace(observation=self._append(step.observation, time))
        if self.final:
            step = step._replace(terminated=step.terminated | step.truncated, truncated=jnp.zeros_like(step.truncated))
        return WrapperState(inner, time), step

    def _append(self, observation: Float[Array, " seen"], time: Int[Array, ""]) -> Float[Array, " all"]:
        limit = jnp.asarray(self.environment.horizon, jnp.float32)
        left = jnp.maximum(2 * (limit - time) / limit - 1, -1.0).astype(jnp.float32)
        return jnp.concatenate([observation, jnp.broadcast_to(left, (*observation.shape[:-1], 1))], axis=-1)


class ActionRepeat(Wrapper):
    """Each action taken `repeats` times, with the rewards added up. Stops at the end of an episode.

    In a team, an agent whose own episode ends early keeps its last observation and its flags.
    """

    example: ClassVar[str] = "forage train ppo MountainCar-v0 --wrap action-repeat:4"

    changes_reward: ClassVar[bool] = True

    repeats: int = equinox.field(static=True)  # steps of the environment inside for each one outside

    def __check_init__(self):
        check_least(self, "repeats", self.repeats, 1)

    @property
    def frames_per_second(self) -> float | None:
        inner = self.environment.frames_per_second
        return None if inner is None else inner / self.repeats

    @property
    def horizon(self) -> int | None:
        inner = self.environment.horizon
        return None if inner is None else -(-inner // self.repeats)

    def step(self, state: PyTree[Array], action: PyTree[Array], key: Key[Array, ""]) -> tuple[PyTree[Array], Step]:
        first, *keys = jax.random.split(key, self.repeats)
        state, step = self.environment.step(state, action, first)

        def repeat_step(carry: tuple[PyTree[Array], Step], key: Key[Array, ""]):
            state, step = carry
            ended = step.terminated | step.truncated
            after, more = self.environment.step(state, action, key)
            # Inside, who ran out of time is terminated from the step after on: for this step it has been truncated.
            kept = (step.observation, step.terminated, step.truncated)
            now = (more.observation, more.terminated, more.truncated)
            observation, terminated, truncated = select_tree(ended, kept, now)
            more = Step(observation, step.reward + more.reward, terminated, truncated, more.info)
            return select_tree(ended.all(), carry, (after, more)), None

        return (state, step) if not keys else jax.lax.scan(repeat_step, (state, step), jnp.stack(keys))[0]
