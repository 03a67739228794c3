"""The libraries in Python and C++ that adapters open, each driven as its own documentation does, without Forage."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from conformance import SeenRecord, join_agents
from conformance_host import HostDriver


class Gymnasium(HostDriver):
    """A mask may be in the info. Its own TimeLimit may be right at the end of the task, too."""

    def __init__(self, id: str, **options: Any):
        self.library = self.make(id, options)

    def make(self, id: str, options: dict[str, Any]) -> Any:
        import gymnasium

        return gymnasium.make(id, **options)

    def reset(self, seed: int | None) -> SeenRecord:
        observation, info = self.library.reset(seed=seed)
        return SeenRecord(observation, info.get("action_mask"))

    def step(self, action: Any) -> SeenRecord:
        observation, reward, terminated, truncated, info = self.library.step(action)
        return SeenRecord(observation, info.get("action_mask"), reward, terminated, truncated and not terminated)


class Atari(Gymnasium):
    """The emulator's own frames; the adapter's preprocessing is off."""

    def make(self, id: str, options: dict[str, Any]) -> Any:
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
        assert options.pop("preprocess") is False
        return gymnasium.make(id, **options)


class MOGymnasium(Gymnasium):
    def make(self, id: str, options: dict[str, Any]) -> Any:
        import mo_gymnasium

        return mo_gymnasium.make(id, **options)


class Robotics(Gymnasium):
    def make(self, id: str, options: dict[str, Any]) -> Any:
        import gymnasium
        import gymnasium_robotics

        gymnasium.register_envs(gymnasium_robotics)
        return gymnasium.make(id, **options)


class EnvPool(HostDriver):
    """A pool of one. It resets in the step after an end and ignores the action."""

    def __init__(self, id: str, **options: Any):
        self.id, self.options = id, {name: value for name, value in options.items() if name != "flatten"}

    def reset(self, seed: int | None) -> SeenRecord:
        import envpool

        if seed is None:
            return self.step(self.library.action_space.sample())._replace(reward=0.0)
        self.library = envpool.make(self.id, env_type="gymnasium", num_envs=1, seed=seed, **self.options)
        return self.look(self.library.reset()[0])

    def step(self, action: Any) -> SeenRecord:
        observation, reward, terminated, truncated, _ = self.library.step(np.asarray(action)[None])
        late = truncated[0] and not terminated[0]
        return self.look(observation)._replace(reward=reward[0], terminated=terminated[0], truncated=late)

    def look(self, observation: Any) -> SeenRecord:
        if isinstance(observation, dict):
            parts = {name: part[0] for name, part in observation.items()}
            return SeenRecord(parts, parts.pop("action_mask", None))
        return SeenRecord(observation[0])


class EnvPoolAtari(EnvPool):
    """Frames that are stacked in front; Forage has them behind."""

    def look(self, observation: Any) -> SeenRecord:
        return SeenRecord(np.moveaxis(observation[0], 0, -1))


class ALEVector(HostDriver):
    """A vector environment of one game that resets in the step after an end; frames are stacked in front."""

    def __init__(self, id: str, **options: Any):
        from ale_py.vector_env import AtariVectorEnv

        self.library = AtariVectorEnv(id.lower(), 1, autoreset_mode="NextStep", reward_clipping=False, **options)

    def reset(self, seed: int | None) -> SeenRecord:
        if seed is None:
            return self.step(0)._replace(reward=0.0)
        return SeenRecord(np.moveaxis(self.library.reset(seed=seed)[0][0], 0, -1))

    def step(self, action: Any) -> SeenRecord:
        observation, reward, terminated, truncated, _ = self.library.step(np.array([action], np.int32))
        return SeenRecord(np.moveaxis(observation[0], 0, -1), None, float(reward[0]), terminated[0], truncated[0])


class PettingZoo(HostDriver):
    """All agents at once; those that are no longer in `agents` have left."""

    make = "parallel_env"

    def __init__(self, id: str, **options: Any):
        family, _, name = id.partition("/")
        module = importlib.import_module(f"mpe2.{name}" if family == "mpe" else f"pettingzoo.{family}.{name}")
        self.library = getattr(module, self.make)(**options)
        self.agents = list(self.library.possible_agents)

    def reset(self, seed: int | None) -> SeenRecord:
        self.gone, self.late = np.zeros((2, len(self.agents)), bool)
        shown, _ = self.library.reset(seed=seed)
        return self.look(shown)

    def step(self, action: Any) -> SeenRecord:
        chosen = dict(zip(self.agents, action, strict=True))
        shown, *told, _ = self.library.step({agent: chosen[agent] for agent in self.library.agents})
        return self.ends(*told, self.look(shown))

    def ends(self, rewards: Any, terminations: Any, truncations: Any, seen: SeenRecord) -> SeenRecord:
        self.gone = self.gone | [terminations.get(agent, False) for agent in self.agents]
        self.late = self.late | [truncations.get(agent, False) for agent in self.agents] & ~self.gone
        reward = np.array([rewards.get(agent, 0.0) for agent in self.agents], np.float32)
        return seen._replace(reward=reward, terminated=self.gone, truncated=self.late)

    def look(self, shown: dict[str, Any]) -> SeenRecord:
        parts = [np.asarray(shown[agent] if agent in shown else self.empty(agent), np.float32) for agent in self.agents]
        parts = [part if part.ndim == 3 else part.ravel() for part in parts]
        sizes = [self.library.action_space(agent).n for agent in self.agents]
        differ = len({part.shape for part in parts}) > 1 or len(set(sizes)) > 1
        observation, state = join_agents(parts, differ)
        here = np.array([agent in self.library.agents for agent in self.agents])
        mask = None if len(set(sizes)) == 1 else np.arange(max(sizes)) < np.array(sizes)[:, None]
        return SeenRecord(observation, mask, present=np.where(here, 1, -1), state=state)

    def empty(self, agent: str) -> Any:
        return np.zeros(self.library.observation_space(agent).shape)


class PettingZooTurns(PettingZoo):
    """One agent after another, with masks. An agent that is done takes one more step, without an action."""

    make = "env"

    def reset(self, seed: int | None) -> SeenRecord:
        self.gone, self.late = np.zeros((2, len(self.agents)), bool)
        self.library.reset(seed=seed)
        return self.look({})

    def step(self, action: Any) -> SeenRecord:
        library = self.library
        library.step(int(action[self.agents.index(library.agent_selection)]))
        told = dict(library.rewards), dict(library.terminations), dict(library.truncations)
        for _ in library.agent_iter():
            _, _, terminated, truncated, _ = library.last()
            if not (terminated or truncated):
                break
            library.step(None)
        return self.ends(*told, self.look({}))

    def look(self, shown: dict[str, Any]) -> SeenRecord:
        library = self.library
        said = [library.observe(agent) for agent in self.agents]
        seen = super().look({agent: one["observation"] for agent, one in zip(self.agents, said, strict=True)})
        turn = np.array([agent == library.agent_selection for agent in self.agents]) if library.agents else False
        return seen._replace(
            mask=np.stack([one["action_mask"] for one in said]), present=np.where(seen.present < 0, -1, turn)
        )
