"""What the tests of rewards share: specifications, experience made by hand, and jitted methods."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from forage.types import Clock, Experience, Spec


def spec_of(observation_space=None, reward_names=(), name="Here"):
    observation_space = observation_space or gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    return Spec(name, observation_space, gymnasium.spaces.Discrete(2), reward_names)


def experience_of(reward, terminated=None, truncated=None, next_observation=None):
    reward = jnp.asarray(reward, jnp.float32)
    none = jnp.zeros(reward.shape[:2], bool)
    terminated, truncated = (none if flag is None else jnp.asarray(flag, bool) for flag in (terminated, truncated))
    seen = jnp.zeros((*none.shape, 2)) if next_observation is None else next_observation
    return Experience(seen, none, reward, seen, terminated, truncated, none.astype(int), ())


KEY = jax.random.key(0)
CLOCK = Clock(jnp.int32(0), jnp.float32(1e6))


@jax.jit
def learn(rewards, state, rollout, key):
    """The state, the rollout with its note, and metrics."""
    state, note, metrics = rewards.learn(state, rollout, CLOCK, key)
    return state, rollout._replace(note=note), metrics


relabel = jax.jit(lambda rewards, *arguments: rewards.relabel(*arguments))
