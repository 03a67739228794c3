"""The reward of any goal, computed by an environment on the host, as a function that a compiled program may call."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float

from forage.core.types import ForageError

GOALS = ("observation", "achieved_goal", "desired_goal")


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class HostGoalReward:
    """The rewards of an environment with `compute_reward(achieved, desired, info)`, as Gymnasium-Robotics defines it.

    `compute_reward` takes goals `row goal` and returns a number for each; `compute_terminated`, where there is one,
    takes one goal each. Both get an empty `info`. They are called on the host, in one more environment, while the
    compiled program waits.
    """

    name: str
    options: str  # of the environment, in words: two of one name and options are equal
    make: Callable[[], Any] = dataclasses.field(compare=False, repr=False)

    def reward_of(
        self, achieved: Float[Array, "*shape goal"], desired: Float[Array, "*shape goal"]
    ) -> Float[Array, "*shape"]:
        """Compute the rewards of steps to `achieved` while `desired` is the goal."""
        shape = jnp.broadcast_shapes(achieved.shape, desired.shape)[:-1]
        called = functools.partial(compute_rewards, self)
        result = jax.ShapeDtypeStruct(shape, jnp.float32)
        return jax.pure_callback(called, result, achieved, desired, vmap_method="expand_dims")

    def terminates(
        self, achieved: Float[Array, "*shape goal"], desired: Float[Array, "*shape goal"]
    ) -> Bool[Array, "*shape"]:
        """Return whether the goal is reached and that ends the episode."""
        shape = jnp.broadcast_shapes(achieved.shape, desired.shape)[:-1]
        if not hasattr(open_environment(self), "compute_terminated"):
            return jnp.zeros(shape, bool)
        called = functools.partial(compute_ends, self)
        return jax.pure_callback(
            called, jax.ShapeDtypeStruct(shape, bool), achieved, desired, vmap_method="expand_dims"
        )

    def check(self, steps: int = 5) -> None:
        """Raise `ForageError` if the rewards of a few random steps are not those that the goals give."""
        env = open_environment(self)
        seen, _ = env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(steps):
            seen, paid, over, cut, _ = env.step(env.action_space.sample())
            goals = (np.asarray(seen[name], np.float32)[None] for name in GOALS[1:])
            found = compute_rewards(self, *goals)[0]
            if not np.isclose(found, paid, rtol=1e-4, atol=1e-5):
                raise ForageError(
                    f"{self.name} pays {float(paid):g} for a step and {found:g} by compute_reward for its goals, so "
                    f"rewards of other goals cannot be computed; use --memory uniform."
                )
            if over or cut:
                seen, _ = env.reset()


def find_goal_reward(
    env: gymnasium.Env[Any, Any], name: str, make: Callable[[], Any], options: Mapping[str, Any]
) -> HostGoalReward | None:
    """Return the rewards of goals of an environment that computes them; `None` for any other."""
    space = env.observation_space
    goals = isinstance(space, spaces.Dict) and all(isinstance(space.spaces.get(key), spaces.Box) for key in GOALS)
    if not goals or not callable(getattr(env.unwrapped, "compute_reward", None)):
        return None
    return HostGoalReward(name, repr(sorted(options.items())), make)


@functools.lru_cache(maxsize=8)
def open_environment(goal_reward: HostGoalReward) -> Any:
    """Make one environment of this process to ask for rewards, once."""
    return goal_reward.make().unwrapped


def compute_rewards(goal_reward: HostGoalReward, achieved: Any, desired: Any) -> Float[np.ndarray, "*shape"]:
    """Return the rewards of goals, leaves `*shape goal`."""
    achieved, desired = np.broadcast_arrays(np.asarray(achieved), np.asarray(desired))
    rows = [goals.reshape(-1, goals.shape[-1]) for goals in (achieved, desired)]
    found = np.asarray(open_environment(goal_reward).compute_reward(*rows, {}), np.float32)
    if found.shape != (len(rows[0]),):
        raise ForageError(
            f"compute_reward of {goal_reward.name} returned an array of shape {found.shape} for {len(rows[0])} goals; "
            f"it should return one number for each."
        )
    return found.reshape(achieved.shape[:-1])


def compute_ends(goal_reward: HostGoalReward, achieved: Any, desired: Any) -> Bool[np.ndarray, "*shape"]:
    """Return whether each goal, leaves `*shape goal`, ends its episode."""
    achieved, desired = np.broadcast_arrays(np.asarray(achieved), np.asarray(desired))
    rows = zip(*(goals.reshape(-1, goals.shape[-1]) for goals in (achieved, desired)), strict=True)
    ends = open_environment(goal_reward).compute_terminated
    return np.array([bool(ends(*row, {})) for row in rows]).reshape(achieved.shape[:-1])
