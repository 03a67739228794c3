"""Helpers for tests of rewards: specifications, experience made by hand, and jitted methods."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from forage.core.types import Clock, Experience, Spec


def spec_of(observation_space=None, reward_names=(), name="Here"):
    observation_space = observation_space or gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    return Spec(name, observation_space, gymnasium.spaces.Discrete(2), reward_names)


def experience_of(reward, terminated=None, truncated=None, next_observation=None):
    xp = jnp if isinstance(reward, jax.Array) else np  # NumPy compiles nothing; within a traced function it is JAX's
    reward = xp.asarray(reward, np.float32)
    none = xp.zeros(reward.shape[:2], bool)
    terminated, truncated = (none if flag is None else xp.asarray(flag, bool) for flag in (terminated, truncated))
    seen = xp.zeros((*none.shape, 2), np.float32) if next_observation is None else next_observation
    return Experience(seen, none, reward, seen, terminated, truncated, none.astype(np.int32), ())


KEY = jax.random.key(0)
CLOCK = Clock(jnp.int32(0), jnp.float32(1e6))


@jax.jit
def run_learn(rewards, state, rollout, key):
    state, note, metrics = rewards.learn(state, rollout, CLOCK, key)
    return state, rollout._replace(rewards_info=note), metrics


relabelled = jax.jit(lambda rewards, *arguments: rewards.relabel(*arguments))


def learn(*arguments):
    """The state, the rollout with its note, and metrics; in NumPy, as every operation on JAX's would be compiled."""
    return jax.device_get(run_learn(*arguments))


def relabel(*arguments):
    return jax.device_get(relabelled(*arguments))
