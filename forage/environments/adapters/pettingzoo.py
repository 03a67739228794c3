"""PettingZoo on the host road: `pettingzoo:mpe/simple_spread_v3`, `pettingzoo:classic/connect_four_v3`.

Terry et al. (2021), "PettingZoo: Gym for Multi-Agent Reinforcement Learning", arXiv 2009.14471.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatten, flatten_space
from jaxtyping import PyTree, UInt8

from forage.environments.adapters import foreign
from forage.environments.adapters.gymnasium_make import frames_per_second
from forage.environments.adapters.gymnasium_spaces import float_box
from forage.environments.adapters.loading import load_module, look_in
from forage.environments.host import HostEnvironment, HostStep, seeds
from forage.spaces import MASK, PRESENCE, PRESENT, STATE
from forage.types import ForageError, Step

FAMILIES = {
    "classic": "pettingzoo.classic",
    "butterfly": "pettingzoo.butterfly",
    "sisl": "pettingzoo.sisl",
    "mpe": "mpe2",
}
VERSIONED = re.compile(r"\w+_v\d+")


def ids() -> dict[str, str]:
    """Every id of the families that are installed, with a line of description."""
    found = {}
    for family, package in FAMILIES.items():
        if importlib.util.find_spec(package.partition(".")[0]) is None:
            continue
        path = importlib.import_module(package).__path__
        for module in pkgutil.iter_modules(path):
            if VERSIONED.fullmatch(module.name) and not module.ispkg:
                title = module.name.rpartition("_")[0].replace("_", " ")
                found[f"{family}/{module.name}"] = f"PettingZoo's {title} ({family})."
    return found


def canonical(target: str) -> str:
    """The id; or a module of your own, here or installed, that has `parallel_env` or `env`."""
    known = {id.lower(): id for id in ids()}
    if target.lower() in known:
        return known[target.lower()]
    family, slash, _ = target.partition("/")
    if slash and family in FAMILIES and importlib.util.find_spec(FAMILIES[family].partition(".")[0]) is None:
        raise ForageError(f"pettingzoo:{target} needs another package: pip install {FAMILIES[family]}.")
    if not slash and target.replace(".", "").isidentifier():
        look_in(Path.cwd())
        if "." in target or importlib.util.find_spec(target) is not None:
            return target
    from difflib import get_close_matches

    near = [f"pettingzoo:{known[id]}" for id in get_close_matches(target.lower(), known, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(near)}?" if near else "forage list environments shows what it has."
    raise ForageError(f"PettingZoo has no environment {target}; {hint}")


def module_of(target: str) -> Any:
    """The module that makes an environment. Raises `ForageError` where there is none, or its import fails."""
    family, slash, name = target.partition("/")
    if not slash:
        found = load_module(target)
        if not hasattr(found, "parallel_env") and not hasattr(found, "env"):
            raise ForageError(f"The module {target} has neither parallel_env nor env, as PettingZoo's modules have.")
        return found
    try:
        return importlib.import_module(f"{FAMILIES[family]}.{name}")
    except ImportError as error:
        raise unmade(target, error) from error


def unmade(target: str, error: Exception) -> ForageError:
    family, slash, _ = target.partition("/")
    packages = f"; its packages come with pip install 'pettingzoo[{family}]'" if slash else ""
    return ForageError(f"pettingzoo:{target} could not be made ({type(error).__name__}: {error}){packages}.")


def create(target: str, options: dict[str, Any]) -> tuple[Any, bool]:
    """Makes one environment. Returns it, and whether its agents act in turns."""
    found = module_of(target)
    make = getattr(found, "parallel_env", None) or found.env
    try:
        made = make(render_mode="rgb_array", **options)
    except Exception as error:
        wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error)) if isinstance(error, TypeError) else None
        known = options_of(getattr(found, "raw_env", make)) if wrong and wrong[1] in options else set()
        if wrong and known:
            raise foreign.unknown(f"pettingzoo:{target}", wrong[1], known) from error
        raise unmade(target, error) from error
    return made, not hasattr(found, "parallel_env")


def options_of(make: Any) -> set[str]:
    """The options that a class or function names."""
    taken = inspect.signature(make).parameters.values()
    return {option.name for option in taken if option.kind is not option.VAR_KEYWORD} - {"render_mode"}


def horizon(env: Any, turns: bool) -> int | None:
    """The steps of an episode, where the environment limits its cycles; in turns a cycle is several steps."""
    cycles = getattr(env.unwrapped, "max_cycles", None)
    return cycles if isinstance(cycles, int) and not turns else None


class Seen(NamedTuple):
    """What all agents see, before it is put together; leaves `env agent ...`."""

    observation: np.ndarray
    mask: np.ndarray  # bool
    presence: np.ndarray  # int8


class PettingZooEnvironment(HostEnvironment):
    """`num_envs` environments of PettingZoo, whose agents act at once or in turns, stepped one after another.

    - Each agent sees `{"observation", "state", "present"}`, and `"action_mask"` where the environment has one or the
      agents have different numbers of actions. Observations are flattened to `float32` (images stay) and padded with
      zeros to the largest; with `identity` (the default where agents differ) the agent's number is appended, one-hot.
      `state`, for a central critic, is all observations side by side and the agent's number.
    - In turns, a step is one agent's; the others wait, and what they do is not heard. Rewards reach each agent at the
      step they fall on. Who is done is taken out at once.
    - An agent that has left stays terminated without reward until all have; one that has not come yet waits.
    - Where an environment says both terminated and truncated, terminated wins.
    - Its state cannot be saved: `snapshot` is `None`.
    """

    def __init__(
        self,
        target: str,
        num_envs: int,
        name: str | None = None,
        identity: bool | None = None,
        own: Mapping[str, Any] | None = None,
        **options: Any,
    ):
        """`options` go to the environment's constructor, and `own` too, whatever they are called."""
        name, options = name or f"pettingzoo:{target}", {**options, **(own or {})}
        first, self.turns = create(target, options)
        self.envs = [first, *(create(target, options)[0] for _ in range(num_envs - 1))]
        self.agents: list[str] = list(first.possible_agents)
        seen = [first.observation_space(agent) for agent in self.agents]
        self.masked = all(isinstance(s, spaces.Dict) and set(s.spaces) == {"observation", MASK} for s in seen)
        self.seen = [s["observation"] if self.masked else s for s in seen]
        self.images = all(isinstance(s, spaces.Box) and len(s.shape) == 3 for s in self.seen)
        if self.images and len({s.shape for s in self.seen}) > 1:
            raise ForageError(f"{name} shows agents images of different sizes; one size works.")
        acts = [first.action_space(agent) for agent in self.agents]
        self.sizes = [self.action_size(name, space) for space in acts]
        self.acts, self.most = acts, max(self.sizes)
        self.shapes: list[tuple[int, ...]] = [
            tuple((s if self.images else flatten_space(s)).shape or ()) for s in self.seen
        ]
        differ = len(set(self.sizes)) > 1 or len(set(self.shapes)) > 1
        self.identity = differ if identity is None else identity
        self.shape: tuple[int, ...] = self.shapes[0] if self.images else (max(shape[0] for shape in self.shapes),)
        self.masked = self.masked or (isinstance(acts[0], spaces.Discrete) and len(set(self.sizes)) > 1)
        self.allowed = np.arange(self.most) < np.array(self.sizes)[:, None]
        self.gone = np.zeros((num_envs, len(self.agents)), bool)
        self.out_of_time = np.zeros_like(self.gone)
        self.following: Any = None
        limit = horizon(first, self.turns)
        super().__init__(name, self.spaces(), self.one_action(), num_envs, limit, (), len(self.agents))

    @classmethod
    def options_of(cls, target: str) -> set[str]:
        """The options that the environment's own constructor names."""
        found = module_of(target)
        return options_of(getattr(found, "raw_env", None) or getattr(found, "parallel_env", None) or found.env)

    @property
    def frames_per_second(self) -> float | None:
        return frames_per_second(self.envs[0])

    @staticmethod
    def action_size(name: str, space: Any) -> int:
        if isinstance(space, spaces.Discrete):
            return int(space.n)
        if isinstance(space, spaces.Box) and len(space.shape) == 1:
            return space.shape[0]
        raise ForageError(f"{name} has actions {space}; Discrete and flat Box actions work.")

    def one_action(self) -> spaces.Space[Any]:
        if len({type(space) for space in self.acts}) > 1:
            raise ForageError("Agents with discrete and agents with continuous actions cannot share one policy.")
        if isinstance(self.acts[0], spaces.Discrete):
            return spaces.Discrete(self.most)
        widest = self.acts[int(np.argmax(self.sizes))]
        return float_box(widest.low, widest.high)

    def spaces(self) -> spaces.Space[Any]:
        number = len(self.agents)
        *front, last = self.shape
        box = {"observation": (*front, last + number * self.identity), STATE: (*front, last * number + number)}
        if number == 1:
            return spaces.Box(-np.inf, np.inf, self.shape, np.float32)
        parts: dict[str, spaces.Space[Any]] = {
            key: spaces.Box(-np.inf, np.inf, shape, np.float32) for key, shape in box.items()
        }
        parts[PRESENT] = PRESENCE
        if self.masked:
            parts[MASK] = spaces.MultiBinary(self.most)
        return spaces.Dict(parts)

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        seen = self.nothing()
        for index, number in enumerate(seeds(seed, self.num_envs)):
            self.begin(seen, index, number)
        self.following = self.shown(seen)
        return self.following

    def begin(self, into: Seen, index: int, seed: int | None = None) -> None:
        """Starts an episode of one environment, and writes what its agents see."""
        self._at = index
        begun = self.envs[index].reset(seed=seed)
        self.gone[index], self.out_of_time[index] = False, False
        self.write(into, index, None if self.turns else begun[0])

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        if self.following is None:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")
        shape = self.gone.shape
        reward, over, clock = np.zeros(shape, np.float32), np.zeros(shape, bool), np.zeros(shape, bool)
        taken, said = np.asarray(action), []
        taken = taken.reshape(*shape, *taken.shape[1 + (self.num_agents > 1) :])
        taken = taken.tolist() if taken.ndim == 2 else taken  # choices: Python's numbers are quicker one by one
        for index, env in enumerate(self.envs):
            self._at = index
            seen, rewards, ends, clocks = self.advance(env, taken[index])
            reward[index] = [rewards.get(name, 0.0) for name in self.agents]
            over[index] = [ends.get(name, False) for name in self.agents]
            clock[index] = [clocks.get(name, False) for name in self.agents]
            said.append(seen)
        before = self.gone | self.out_of_time
        self.gone |= over & ~before
        self.out_of_time |= clock & ~before & ~over
        # The clock ends an agent's episode once; afterwards it has left, as one whose task is over.
        terminated, truncated = self.gone | before, self.out_of_time & ~before
        reward[before] = 0
        seen = self.nothing()
        for index in range(self.num_envs):
            self._at = index
            self.write(seen, index, said[index])
        observation = self.following = self.shown(seen)
        if len(ended := np.flatnonzero((terminated | truncated).all(1))):
            fresh = Seen(*(array.copy() for array in seen))
            for index in ended.tolist():
                self.begin(fresh, index)
            self.following = self.shown(fresh)
        if self.num_agents == 1:
            reward, terminated, truncated = reward[:, 0], terminated[:, 0], truncated[:, 0]
        result: Any = Step(observation, reward, terminated, truncated, {})  # pyrefly: ignore[bad-argument-type]
        return HostStep(result, self.following)

    def advance(self, env: Any, action: Any) -> tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Steps one environment. Returns what it said of agents: seen, rewards, terminated, truncated."""
        chosen = {name: self.own(i, action[i]) for i, name in enumerate(self.agents)}
        if not self.turns:
            return env.step({name: chosen[name] for name in env.agents})[:4]
        env.step(chosen[env.agent_selection])
        rewards, over, clock = dict(env.rewards), dict(env.terminations), dict(env.truncations)
        while env.agents and (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
            env.step(None)
        return None, rewards, over, clock

    def own(self, agent: int, action: Any) -> Any:
        """An agent's own part of a padded action, as its space wants it."""
        space = self.acts[agent]
        if isinstance(space, spaces.Discrete):
            return min(action, self.sizes[agent] - 1) + int(space.start)
        return np.clip(np.asarray(action[: self.sizes[agent]], space.dtype), space.low, space.high)

    def nothing(self) -> Seen:
        """Arrays to write to."""
        shape = self.gone.shape
        mask = np.broadcast_to(self.allowed, (self.num_envs, *self.allowed.shape)).copy()
        return Seen(np.zeros((*shape, *self.shape), np.float32), mask, np.zeros(shape, np.int8))

    def write(self, into: Seen, index: int, seen: dict[str, Any] | None) -> None:
        """Writes what the agents of one environment see; `seen` is what it said, or else it is asked."""
        env = self.envs[index]
        left = (self.gone[index] | self.out_of_time[index]).tolist()
        acting = env.agent_selection if self.turns and env.agents else None
        into.observation[index], into.mask[index] = 0, self.allowed
        for i, name in enumerate(self.agents):
            here = not self.turns or name == acting
            if seen is not None and name not in seen:  # it has left, or has not come yet
                here = False
            else:
                said = env.observe(name) if seen is None else seen[name]
                if isinstance(said, dict) and MASK in said:
                    allowed = np.asarray(said[MASK], bool)
                    if allowed.any():
                        into.mask[index, i, : len(allowed)] = allowed
                    said = said["observation"]
                plain = self.images or isinstance(self.seen[i], spaces.Box)
                flat = np.asarray(said).reshape(self.shapes[i]) if plain else flatten(self.seen[i], said)
                into.observation[(index, i, *map(slice, self.shapes[i]))] = flat
            into.presence[index, i] = -1 if left[i] else here

    def shown(self, seen: Seen) -> PyTree[np.ndarray]:
        """What a batch shows: with who one is, what a central critic sees, who is there and what is allowed."""
        observation, number = seen.observation, len(self.agents)
        if number == 1:
            return observation[:, 0]
        each = observation.shape[:-1]  # env agent and an image's height and width
        who = np.eye(number, dtype=np.float32).reshape(number, *(1,) * (len(each) - 2), number)
        together = np.moveaxis(observation, 1, -2).reshape(each[0], 1, *each[2:], -1)
        state = np.empty((*each, together.shape[-1] + number), np.float32)
        state[..., :-number], state[..., -number:] = together, who
        if self.identity:
            observation = np.concatenate([observation, np.broadcast_to(who, (*each, number))], -1)
        shown = {"observation": observation, STATE: state, PRESENT: seen.presence}
        return shown | ({MASK: seen.mask.astype(np.int8)} if self.masked else {})

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        drawn = self.envs[0].render()
        if not isinstance(drawn, np.ndarray):
            raise ForageError(f"{self.name} cannot be drawn; it has no rgb_array render mode.")
        return foreign.picture(self.name, drawn)

    def close(self) -> None:
        for env in self.envs:
            env.close()
