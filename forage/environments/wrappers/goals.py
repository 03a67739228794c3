"""Goals: the same environment with one of many goals to reach, shown in the observation."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import Environment, Part, State
from forage.core.types import ForageError, Step
from forage.environments.limits import check_at_least
from forage.environments.wrappers.base import Wrapper

REWARDS = ("sparse", "penalty", "dense", "distance")
ON_SUCCESS = ("stay", "renew", "end")
CONTRACT = ("goal_space", "achieved_goal", "draw_goal")


class GoalState(NamedTuple):
    inner: State
    goal: Float[Array, " goal"]

    @property
    def time(self) -> Int[Array, ""]:
        """Return the steps taken."""
        return self.inner.time


class GoalReward(Part):
    """The reward of a step for any goal, not only the one desired at the time: see `GoalConditioned`."""

    radius: float | Float[Array, ""]
    scale: float | Float[Array, "*goal"]
    reward: str = equinox.field(static=True)
    ends: bool = equinox.field(static=True)  # reaching the goal terminates the episode

    def distance(self, achieved: Float[Array, "*shape goal"], desired: Float[Array, "*shape goal"]) -> Array:
        """Return the distance of an achieved state from a goal, in units of `scale`, over the last axis."""
        return jnp.linalg.norm((achieved - desired) / self.scale, axis=-1)

    def is_reached(self, achieved: Float[Array, "*shape goal"], desired: Float[Array, "*shape goal"]) -> Array:
        """Return whether it is near enough."""
        return self.distance(achieved, desired) <= self.radius

    def reward_of(self, achieved: Float[Array, "*shape goal"], desired: Float[Array, "*shape goal"]) -> Array:
        """Return the reward of a step into `achieved` with the goal `desired`, for any leading axes."""
        if self.reward in ("sparse", "penalty"):
            return self.is_reached(achieved, desired).astype(jnp.float32) - (self.reward == "penalty")
        distance = self.distance(achieved, desired)
        return (jnp.exp(-distance) if self.reward == "dense" else -distance).astype(jnp.float32)

    def terminates(self, achieved: Float[Array, "*shape goal"], desired: Float[Array, "*shape goal"]) -> Array:
        """Return whether such a step ends the episode by reaching the goal, for any leading axes."""
        reached = self.is_reached(achieved, desired)
        return reached if self.ends else jnp.zeros_like(reached)


class GoalConditioned(Environment):
    """The wrapped environment with a goal to achieve, drawn at the start of each episode.

    The environment has `goal_space` (a box), `achieved(state)` (the point of that space that this state achieves) and
    `draw_goal(state, key)` (a goal for an episode in this state). `Entries` gives these to any environment with a flat
    observation. With the distance d = |(achieved - desired) / scale| (Euclidean), the goal is reached if d <= `radius`,
    and the reward of a step is

    - `sparse`: 1 if the goal is reached, else 0;
    - `penalty`: 0 if the goal is reached, else -1;
    - `dense`: exp(-d);
    - `distance`: -d.

    `on_success` is the effect of reaching it: with `stay` the goal stays and the agent may stay too; with `renew`
    another goal is drawn and shown at once, and the episode continues; with `end` the episode terminates.

    - Observation: a dictionary of `observation`, `achieved_goal` and `desired_goal` (Gymnasium's GoalEnv); or, with
      `flat`, the observation and the desired goal in one vector, for agents that do not read dictionaries.
    - Action, terminated, truncated: the environment's own, in addition to `end`. Its own reward is dropped.
    - `info["success"]`: the goal was reached by this step.

    The reward of a step belongs to the goal at the time of the action: `desired_goal` of the observation before the
    step, also with `renew`. A step can be judged by another goal with `reward_of(achieved, desired)` and `goal_reward`,
    which is all that hindsight replay needs.

    Source: Schaul, Horgan, Gregor and Silver (2015), "Universal Value Function Approximators"; Andrychowicz et al.
    (2017), "Hindsight Experience Replay" (arXiv 1707.01495); `sparse`, `dense` as in D4RL's mazes (arXiv 2004.07219).
    """

    environment: Environment
    radius: float = 0.45  # how near is reached
    reward: str = equinox.field(default="sparse", static=True)
    on_success: str = equinox.field(default="stay", static=True)
    flat: bool = equinox.field(default=False, static=True)
    scale: float | Float[Array, " goal"] = 1.0  # what counts as one unit of distance, of each entry or of all

    def __check_init__(self):
        inner = type(self.environment).__name__
        missing = [name for name in CONTRACT if not hasattr(self.environment, name)]
        if missing:
            raise ForageError(
                f"GoalConditioned needs an environment that says what was achieved; {inner} has no {missing[0]}. "
                f"Entries({inner}(), indices, low, high) makes goals of entries of its observation."
            )
        for name, known in (("reward", REWARDS), ("on_success", ON_SUCCESS)):
            if getattr(self, name) not in known:
                raise ForageError(f"{name} cannot be {getattr(self, name)!r}; it is one of {', '.join(known)}.")
        check_at_least(self, radius=0)
        space = self.environment.observation_space
        if self.flat and (not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1):
            raise ForageError(f"{inner}'s observation is {space}, which is not flat; flat=False works.")

    def distance(self, achieved: Float[Array, "*shape goal"], desired: Float[Array, "*shape goal"]) -> Array:
        """Return the distance of an achieved state from a goal, in units of `scale`, over the last axis."""
        return self.goal_reward.distance(achieved, desired)

    def is_reached(self, achieved: Float[Array, "*shape goal"], desired: Float[Array, "*shape goal"]) -> Array:
        """Return whether it is near enough."""
        return self.goal_reward.is_reached(achieved, desired)

    def reward_of(self, achieved: Float[Array, "*shape goal"], desired: Float[Array, "*shape goal"]) -> Array:
        """Return the reward of a step into `achieved` with the goal `desired`, for any leading axes."""
        return self.goal_reward.reward_of(achieved, desired)

    @property
    def goal_reward(self) -> GoalReward:
        """Return the reward by itself, with the numbers that it needs of this environment."""
        return GoalReward(self.radius, self.scale, self.reward, self.on_success == "end")

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        seen, goal = self.environment.observation_space, self.inside.goal_space
        if not self.flat:
            return gymnasium.spaces.Dict({"observation": seen, "achieved_goal": goal, "desired_goal": goal})
        assert isinstance(seen, gymnasium.spaces.Box)
        low, high = np.concatenate([seen.low, goal.low]), np.concatenate([seen.high, goal.high])
        return gymnasium.spaces.Box(low, high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self.environment.action_space

    @property
    def frames_per_second(self) -> float | None:
        return self.environment.frames_per_second

    @property
    def horizon(self) -> int | None:
        return self.environment.horizon

    @property
    def info_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.environment.info_names, "success")))

    @property
    def inside(self) -> Any:
        """Return the environment, which has or passes on the three methods about goals."""
        return self.environment

    def reset(self, key: Key[Array, ""]) -> tuple[GoalState, PyTree[Array]]:
        reset_key, goal_key = jax.random.split(key)
        inner, observation = self.environment.reset(reset_key)
        state = GoalState(inner, self._draw_goal(inner, goal_key))
        return state, self._show(state, observation)

    def step(self, state: GoalState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[GoalState, Step]:
        step_key, goal_key = jax.random.split(key)
        inner, step = self.environment.step(state.inner, action, step_key)
        achieved = self._achieved_goal(inner)
        success: Bool[Array, ""] = self.is_reached(achieved, state.goal)
        reward = self.reward_of(achieved, state.goal)
        terminated = step.terminated | success if self.on_success == "end" else step.terminated
        goal = state.goal
        if self.on_success == "renew":
            goal = jnp.where(success, self._draw_goal(inner, goal_key), goal)
        new_state = GoalState(inner, goal)
        return new_state, Step(
            self._show(new_state, step.observation),
            reward,
            terminated,
            step.truncated & ~terminated,
            {**step.info, "success": success},
        )

    @property
    def map_shape(self) -> tuple[int, ...] | None:
        return self.environment.map_shape

    def map_position(self, state: GoalState) -> Int[Array, ""]:
        """Return the state's position on the map, independent of the goal."""
        return self.environment.map_position(state.inner)

    def _achieved_goal(self, inner: State) -> Float[Array, " goal"]:
        owner, state = owner_of("achieved_goal", self.environment, inner)
        return owner.achieved_goal(state)

    def _draw_goal(self, inner: State, key: Key[Array, ""]) -> Float[Array, " goal"]:
        owner, state = owner_of("draw_goal", self.environment, inner)
        return owner.draw_goal(state, key)

    def _show(self, state: GoalState, observation: PyTree[Array]) -> PyTree[Array]:
        if self.flat:
            return jnp.concatenate([observation, state.goal])
        return {
            "observation": observation,
            "achieved_goal": self._achieved_goal(state.inner),
            "desired_goal": state.goal,
        }

    def reachable(self) -> Any:
        return self.environment.reachable()

    def render(self, state: GoalState) -> Any:
        """Return the environment's own picture, including the goal if it can draw one."""
        if getattr(self.environment, "draws_goals", False):
            owner, inner = owner_of("draws_goals", self.environment, state.inner)
            return owner.render(inner, goal=np.asarray(state.goal), reach=float(self.radius))
        return self.environment.render(state.inner)


def owner_of(name: str, environment: Environment, state: State) -> tuple[Any, State]:
    """Return the environment that defines `name`, below wrappers that only pass it on, and its part of the state."""
    while isinstance(environment, Wrapper) and not hasattr(type(environment), name):
        state = state.inner if environment.remembers else state
        environment = environment.environment
    return environment, state
