"""A native environment as a `pettingzoo.ParallelEnv`: one agent, or many that act at the same time."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt8
from pettingzoo import ParallelEnv

from forage.core.ports import Environment
from forage.core.types import ForageError
from forage.environments.export.common import (
    Motion,
    check_render_mode,
    convert_action,
    draw_state,
    key_of,
    outside,
    render_modes,
    reward_space,
    to_space_dtype,
)


class ParallelExport(ParallelEnv):
    """Agents `agent_0`, `agent_1`, ...: `environment.num_agents` of them, one if it has no such attribute.

    With several agents, the environment's spaces are those of one agent, and the leaves of its observations, its
    actions, `reward`, `terminated` and `truncated` have a leading agent axis (either flag may also be one for all). An
    agent leaves at the end of its own episode; the others continue, and the environment gets zeros as the actions of
    agents that left.
    """

    def __init__(self, environment: Environment, name: str = "", render_mode: str | None = None):
        self.name = name or type(environment).__name__
        check_render_mode(self.name, environment, render_mode)
        self.environment, self.render_mode = environment, render_mode
        self.count = int(getattr(environment, "num_agents", 1))
        self.possible_agents = [f"agent_{index}" for index in range(self.count)]
        self.agents: list[str] = []
        self.metadata = {
            "name": self.name,
            "render_modes": render_modes(environment),
            "render_fps": environment.frames_per_second or 30,
            "is_parallelizable": True,
        }
        # PettingZoo wants the same object at every call, and samples of each agent to be its own.
        self.observation_spaces = dict.fromkeys(self.possible_agents, environment.observation_space)
        self.action_spaces = dict.fromkeys(self.possible_agents, environment.action_space)
        self.reward_names = environment.reward_names
        if self.reward_names:
            self.reward_space = reward_space(environment)
        self._check_axis()
        motion = Motion(environment)
        self._begin, self._move = jax.jit(motion.begin), jax.jit(motion.move)
        self._key: Key[Array, ""] | None = None
        self._state: Any = None

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, PyTree[np.ndarray]], dict[str, dict[str, Any]]]:
        """Begin an episode; without a seed, its randomness follows from the episodes before."""
        if seed is not None:
            self._key = key_of(seed)
        elif self._key is None:
            self._key = key_of(int(np.random.SeedSequence().generate_state(1)[0]))
        self._key, self._state, observation = self._begin(self._key)
        self.agents = list(self.possible_agents)
        return self._present_agents(to_space_dtype(self.environment.observation_space, observation)), {
            agent: {} for agent in self.agents
        }

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Take the actions of all agents that are there. Raise `ForageError` if one is missing or is none."""
        if not self.agents:
            raise ForageError(f"{self.name} has no episode running; call reset() first.")
        if set(actions) - set(self.possible_agents) or set(self.agents) - set(actions):
            raise ForageError(f"{self.name} needs an action of each of {self.agents}; it was given {list(actions)}.")
        chosen = [self._action(agent, actions.get(agent)) for agent in self.possible_agents]
        action = np.stack(chosen) if self.count > 1 else chosen[0]
        self._key, self._state, step = self._move(self._key, self._state, action)
        observations = self._present_agents(to_space_dtype(self.environment.observation_space, step.observation))
        rewards = {
            agent: value if self.reward_names else float(value)
            for agent, value in self._present_agents(np.array(step.reward)).items()
        }
        terminated, truncated = (
            {agent: bool(value) for agent, value in self._present_agents(self._flag(flag)).items()}
            for flag in (step.terminated, step.truncated)
        )
        infos = {agent: outside(step.info) for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (terminated[agent] or truncated[agent])]
        return observations, rewards, terminated, truncated, infos

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """Draw the state if `render_mode` is set."""
        if self.render_mode is None:
            return None
        if self._state is None:
            raise ForageError(f"{self.name} has nothing to draw before its first reset; call reset() first.")
        return draw_state(self.environment, self._state)

    def close(self) -> None:
        """Close the environment, without effect: it holds no resources."""

    def _present_agents(self, tree: PyTree[np.ndarray]) -> dict[str, Any]:
        """Return the part of each agent that is present."""
        if self.count == 1:
            return dict.fromkeys(self.agents, tree)
        places = {agent: index for index, agent in enumerate(self.possible_agents)}
        return {agent: jax.tree.map(lambda x, at=places[agent]: x[at], tree) for agent in self.agents}

    def _flag(self, flag: Array) -> np.ndarray:
        return np.asarray(flag) if self.count == 1 else np.broadcast_to(np.asarray(flag), (self.count,))

    def _action(self, agent: str, action: Any) -> np.ndarray:
        space = self.action_spaces[agent]
        if agent not in self.agents:
            return np.zeros(space.shape or (), np.int32 if space.dtype is None else space.dtype)
        return convert_action(f"{self.name}'s {agent}", space, action)

    def _check_axis(self) -> None:
        """Raise `ForageError` if many agents' observations have no agent axis."""
        if self.count == 1:
            return
        _, observation = jax.eval_shape(self.environment.reset, key_of(0))
        for leaf in jax.tree.leaves(observation):
            if leaf.shape[:1] != (self.count,):
                raise ForageError(
                    f"{self.name} has {self.count} agents and an observation of shape {list(leaf.shape)}; "
                    f"it should be one row for each agent."
                )
