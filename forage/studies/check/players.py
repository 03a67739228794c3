"""Random play of environments on the host: one of Gymnasium's, a VectorEnv, a batch of Forage's own contract."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Protocol

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from forage.core.arrays import ActionNesting, action_space, as_actions
from forage.core.host import HostEnvironment, Misfit
from forage.core.spaces import spaces_by_path
from forage.environments.adapters.gymnasium.batch import pick
from forage.environments.adapters.gymnasium.calls import check_step, reset_environment, step_environment
from forage.environments.adapters.gymnasium.make import reward_names
from forage.environments.adapters.gymnasium.spaces import choice_sizes, has_choices
from forage.environments.adapters.gymnasium.vector import VectorEnvironment
from forage.studies.check.findings import NOTE, Finding

Parts = dict[tuple[str, ...], np.ndarray]
"""Rows of observations, by the paths of their parts."""


class StepResults(NamedTuple):
    """The results of a step for every row."""

    seen: Parts
    reward: np.ndarray
    terminated: Any
    truncated: Any
    info: dict[str, Any]
    following: Parts  # what is acted on next, where an episode ended the first observation of a new one


class Player(Protocol):
    """A player of random actions."""

    space: gymnasium.Space[Any]
    actions: gymnasium.Space[Any]
    rows: int
    seconds: float  # spent in steps

    def reset(self, seed: int) -> tuple[Parts, dict[str, Any]]: ...
    def choose(self) -> Any: ...
    def step(self, action: Any) -> StepResults: ...


class Single:
    """One Gymnasium environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int):
        self.env, self.space, self.rows, self.seconds = env, env.observation_space, 1, 0.0
        self.paths = list(spaces_by_path(self.space))
        self.names = reward_names(env)
        self.mask: Any = None
        self.actions = env.action_space
        self.actions.seed(seed)

    def parts(self, observation: Any) -> Parts:
        """Return an observation as rows, copied, as some environments return one array again and again."""
        found = {path: Raw.part(observation, path)[None] for path in self.paths}
        self.mask = found.get(("action_mask",))
        return found

    def reset(self, seed: int | None) -> tuple[Parts, dict[str, Any]]:
        observation, info = reset_environment(self.env, seed)
        return self.parts(observation), info

    def choose(self) -> Any:
        return sample_allowed(self.actions, None if self.mask is None else self.mask[0])

    def step(self, action: Any) -> StepResults:
        began = time.perf_counter()
        observation, reward, over, cut, info = step_environment(self.env, action, self.names)
        self.seconds += time.perf_counter() - began
        seen, info = self.parts(observation), dict(info)
        following = self.reset(None)[0] if over or cut else seen
        return StepResults(seen, np.asarray(reward)[None], over, cut, info, following)


def sample_allowed(space: gymnasium.Space[Any], mask: np.ndarray | None) -> Any:
    """Draw an action that a mask allows: one choice, or several with their options in one concatenated mask."""
    if mask is None or not has_choices(space):
        return space.sample()
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return sample_nested(space, mask)
    if isinstance(space, spaces.Discrete):
        return space.sample(mask=mask.astype(np.int8)) if mask.any() else space.sample()
    if not isinstance(space, spaces.MultiDiscrete) or mask.size != space.nvec.sum():
        return space.sample()
    drawn = space.sample()
    rows = np.split(mask.ravel() != 0, np.cumsum(space.nvec.ravel())[:-1])
    chosen = [
        space.np_random.choice(np.flatnonzero(row)) + start if row.any() else one
        for row, start, one in zip(rows, space.start.ravel(), drawn.ravel(), strict=True)
    ]
    return np.array(chosen, space.dtype).reshape(space.shape)


def sample_nested(space: Any, mask: np.ndarray) -> Any:
    """Draw a nested action of which a concatenated mask allows each choice."""
    sizes, drawn, acts = choice_sizes(space), space.sample(), action_space("", space)
    if mask.size != sum(sizes):
        return drawn
    chosen = as_actions(space, jax.tree.map(lambda x: np.asarray(x)[None], drawn), 1)[0]
    for place, row in enumerate(np.split(mask.ravel() != 0, np.cumsum(sizes)[:-1])):
        if row.any():
            chosen[place] = space.np_random.choice(np.flatnonzero(row))
    return ActionNesting(acts, space)(chosen)


class Raw:
    """A layout that copies observations unchanged, so that their shapes and dtypes can be judged."""

    def __init__(self, space: gymnasium.Space[Any], num_envs: int):
        self.paths, self.num_envs = list(spaces_by_path(space)), num_envs

    def read_batch(self, batch: Any, step: int) -> Parts:
        """Return a batch of observations. Raise `Misfit` if it has another number of environments."""
        found = {}
        for path in self.paths:
            array = self.part(batch, path)
            if array.shape[:1] != (self.num_envs,):
                what = f"returned observation {'.'.join(path)}".strip()
                raise Misfit(
                    f"{what} {array.dtype}{list(array.shape)}", f"its first axis is {self.num_envs}, one for each"
                )
            found[path] = array
        return found

    def write(self, arrays: Parts, index: int, observation: Any, step: int) -> None:
        """Put the last observation of an episode into a batch."""
        for path in self.paths:
            array, to = self.part(observation, path), arrays[path]
            if array.shape != to.shape[1:]:
                what = f"gave as final_obs {'.'.join(path)}".strip()
                raise Misfit(f"{what} {array.dtype}{list(array.shape)}", f"it should be {to.dtype}{list(to.shape[1:])}")
            if not np.can_cast(array.dtype, to.dtype):
                arrays[path] = to = to.astype(np.result_type(array, to))
            to[index] = array

    @staticmethod
    def part(observation: Any, path: tuple[str, ...]) -> np.ndarray:
        try:
            return np.array(pick(observation, path) if path else observation)
        except (KeyError, IndexError, TypeError):
            missing = f"an observation without its part {'.'.join(path)}"
            raise Misfit(f"returned {missing}", "it should have every part of its space") from None
        except ValueError:
            raise Misfit("returned as observation lists of different lengths", "they should have one shape") from None


class Vector:
    """The environments of a VectorEnv, as the adapter steps them."""

    def __init__(self, environment: VectorEnvironment, seed: int):
        self.environment, self.space, self.rows = environment, environment.view.space, environment.num_envs
        self.seconds, self.layout = 0.0, Raw(self.space, environment.num_envs)
        self.actions: Any = environment.action_space
        self.mask: np.ndarray | None = None
        self.actions.seed(seed)
        self.unlike = self.ends = 0  # episodes whose last observation is not the first of the next, and all

    def reset(self, seed: int) -> tuple[Parts, dict[str, Any]]:
        seen, info = self.environment.begin(seed, self.layout)
        self.mask = seen.get(("action_mask",))
        return seen, info

    def choose(self) -> Any:
        rows = [None] * self.rows if self.mask is None else self.mask
        return np.stack([sample_allowed(self.actions, mask) for mask in rows])

    def step(self, action: Any) -> StepResults:
        began = time.perf_counter()
        taken = self.environment.advance(self.environment.door.batch(action), self.layout)
        self.seconds += time.perf_counter() - began
        self.mask = taken.following.get(("action_mask",))
        for row in np.flatnonzero((taken.terminated != 0) | (taken.truncated != 0)):
            pairs = [(array[row], taken.following[path][row]) for path, array in taken.observation.items()]
            self.ends += 1
            self.unlike += not all(np.array_equal(*pair) for pair in pairs)
        info = {name: value for name, value in taken.info.items() if not name.startswith("_")}
        return StepResults(taken.observation, taken.reward, taken.terminated, taken.truncated, info, taken.following)

    def findings(self) -> list[Finding]:
        """Return whether the last observations of episodes are those before the reset."""
        if not self.ends or self.unlike or self.environment.mode is not AutoresetMode.SAME_STEP:
            return []
        words = "the last observation of each episode is the first of the next; put a copy of it, from before the reset"
        return [Finding(NOTE, "final_obs", f"{words}, into final_obs, as values of cut episodes go on from it")]


class AsItIs:
    """A VectorEnv that cannot be used in training; its observations at an end follow its own mode."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], seed: int):
        self.env, self.space, self.rows, self.seconds = env, env.single_observation_space, env.num_envs, 0.0
        self.actions = env.single_action_space
        self.paths = list(spaces_by_path(self.space))
        self.env.action_space.seed(seed)

    def parts(self, observation: Any) -> Parts:
        return {path: np.array(pick(observation, path) if path else observation) for path in self.paths}

    def reset(self, seed: int) -> tuple[Parts, dict[str, Any]]:
        observation, info = reset_environment(self.env, seed)
        return self.parts(observation), info

    def choose(self) -> Any:
        return self.env.action_space.sample()

    def step(self, action: Any) -> StepResults:
        began = time.perf_counter()
        observation, reward, over, cut, info = check_step(self.env.step(action))
        self.seconds += time.perf_counter() - began
        seen = self.parts(observation)
        return StepResults(seen, np.array(reward), np.array(over), np.array(cut), dict(info), seen)


class Batch:
    """A batch of Forage's own contract, with its own checks of shapes, dtypes and finite numbers."""

    def __init__(self, environment: HostEnvironment, seed: int):
        self.environment, self.space = environment, environment.observation_space
        self.rows, self.agents, self.seconds = environment.num_envs, environment.num_agents, 0.0
        self.actions: Any = environment.action_space
        self.mask: np.ndarray | None = None
        self.paths = list(spaces_by_path(self.space))
        self.actions.seed(seed)

    def parts(self, observation: Any) -> Parts:
        found = {path: np.array(pick(observation, path) if path else observation) for path in self.paths}
        # The agents of a team are rows for those who look on.
        return (
            {path: array.reshape(-1, *array.shape[2:]) for path, array in found.items()} if self.agents > 1 else found
        )

    def reset(self, seed: int) -> tuple[Parts, dict[str, Any]]:
        return self.acting(self.parts(self.environment.reset(seed))), {}

    def acting(self, parts: Parts) -> Parts:
        """Store the mask of the next actions."""
        self.mask = parts.get(("action_mask",))
        return parts

    def choose(self) -> Any:
        shape = (self.rows, self.agents) if self.agents > 1 else (self.rows,)
        masks = [None] * int(np.prod(shape)) if self.mask is None else self.mask
        drawn = np.stack([sample_allowed(self.actions, mask) for mask in masks])
        return drawn.reshape(*shape, *drawn.shape[1:])

    def step(self, action: Any) -> StepResults:
        began = time.perf_counter()
        result = self.environment.step(action)
        self.seconds += time.perf_counter() - began
        step = result.step
        seen, following = self.parts(step.observation), self.acting(self.parts(result.observation))
        return StepResults(seen, np.asarray(step.reward), step.terminated, step.truncated, step.info, following)
