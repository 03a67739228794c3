"""Whatever is stepped on the host, played in one way: one Gymnasium environment, a VectorEnv, a batch of Forage's."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np

from forage.core.host import HostEnvironment
from forage.core.spaces import leaves
from forage.environments.adapters.gymnasium.batch import pick
from forage.environments.adapters.gymnasium.calls import advance, begin
from forage.environments.adapters.gymnasium.make import reward_names

Parts = dict[tuple[str, ...], np.ndarray]
"""Rows of observations, by where their parts are."""


class Brought(NamedTuple):
    """What a step brought to every row."""

    seen: Parts
    reward: np.ndarray
    terminated: Any
    truncated: Any
    info: dict[str, Any]
    following: Parts  # what is acted on next, where an episode ended the first observation of a new one


class Player(Protocol):
    """Something to play with random actions."""

    space: gymnasium.Space[Any]
    actions: gymnasium.Space[Any]
    rows: int
    seconds: float  # spent in steps

    def reset(self, seed: int) -> tuple[Parts, dict[str, Any]]: ...
    def choose(self) -> Any: ...
    def step(self, action: Any) -> Brought: ...


class Single:
    """One Gymnasium environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int):
        self.env, self.space, self.rows, self.seconds = env, env.observation_space, 1, 0.0
        self.paths = list(leaves(self.space))
        self.names = reward_names(env)
        self.mask: Any = None
        self.actions = env.action_space
        self.actions.seed(seed)

    def parts(self, observation: Any) -> Parts:
        """Return an observation as rows, copied, as some environments return one array again and again."""
        found = {path: np.array(pick(observation, path) if path else observation)[None] for path in self.paths}
        self.mask = found.get(("action_mask",))
        return found

    def reset(self, seed: int | None) -> tuple[Parts, dict[str, Any]]:
        observation, info = begin(self.env, seed)
        return self.parts(observation), info

    def choose(self) -> Any:
        space = self.actions
        if self.mask is not None and isinstance(space, gymnasium.spaces.Discrete) and self.mask.any():
            return space.sample(mask=self.mask[0].astype(np.int8))
        return space.sample()

    def step(self, action: Any) -> Brought:
        began = time.perf_counter()
        observation, reward, over, cut, info = advance(self.env, action, self.names)
        self.seconds += time.perf_counter() - began
        seen = self.parts(observation)
        following = self.reset(None)[0] if over or cut else seen
        return Brought(seen, np.asarray(reward)[None], over, cut, info, following)


class Vector:
    """A `gymnasium.vector.VectorEnv` as it is; what it shows at the end of an episode follows its own mode."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], seed: int):
        self.env, self.space, self.rows, self.seconds = env, env.single_observation_space, env.num_envs, 0.0
        self.actions = env.single_action_space
        self.paths = list(leaves(self.space))
        self.env.action_space.seed(seed)

    def parts(self, observation: Any) -> Parts:
        return {path: np.array(pick(observation, path) if path else observation) for path in self.paths}

    def reset(self, seed: int) -> tuple[Parts, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed)
        return self.parts(observation), info

    def choose(self) -> Any:
        return self.env.action_space.sample()

    def step(self, action: Any) -> Brought:
        began = time.perf_counter()
        observation, reward, over, cut, info = self.env.step(action)
        self.seconds += time.perf_counter() - began
        seen = self.parts(observation)
        return Brought(seen, np.asarray(reward), over, cut, info, seen)


class Batch:
    """A batch of Forage's own contract, which checks shapes, dtypes and finite numbers by itself."""

    def __init__(self, environment: HostEnvironment, seed: int):
        self.environment, self.space = environment, environment.observation_space
        self.rows, self.agents, self.seconds = environment.num_envs, environment.num_agents, 0.0
        self.actions = environment.action_space
        self.paths = list(leaves(self.space))
        self.actions.seed(seed)

    def parts(self, observation: Any) -> Parts:
        found = {path: np.array(pick(observation, path) if path else observation) for path in self.paths}
        # The agents of a team are rows for those who look on.
        return (
            {path: array.reshape(-1, *array.shape[2:]) for path, array in found.items()} if self.agents > 1 else found
        )

    def reset(self, seed: int) -> tuple[Parts, dict[str, Any]]:
        return self.parts(self.environment.reset(seed)), {}

    def choose(self) -> Any:
        shape = (self.rows, self.agents) if self.agents > 1 else (self.rows,)
        drawn = np.stack([self.actions.sample() for _ in range(int(np.prod(shape)))])
        return drawn.reshape(*shape, *drawn.shape[1:])

    def step(self, action: Any) -> Brought:
        began = time.perf_counter()
        result = self.environment.step(action)
        self.seconds += time.perf_counter() - began
        step = result.step
        seen, following = self.parts(step.observation), self.parts(result.observation)
        return Brought(seen, np.asarray(step.reward), step.terminated, step.truncated, step.info, following)
