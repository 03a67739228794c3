"""PettingZoo on the host road: `pettingzoo:mpe/simple_spread_v3`, `pettingzoo:classic/connect_four_v3`.

Terry et al. (2021), "PettingZoo: Gym for Multi-Agent Reinforcement Learning", arXiv 2009.14471.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatten, flatten_space
from jaxtyping import PyTree, UInt8

from forage.environments.adapters import foreign
from forage.environments.adapters.gymnasium import seeds
from forage.environments.host import HostEnvironment, HostStep
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
    """The id; or `package.module` of your own that has `parallel_env` or `env`."""
    known = {id.lower(): id for id in ids()}
    if target.lower() in known:
        return known[target.lower()]
    family, slash, _ = target.partition("/")
    if slash and family in FAMILIES and importlib.util.find_spec(FAMILIES[family].partition(".")[0]) is None:
        raise ForageError(f"pettingzoo:{target} needs another package: pip install {FAMILIES[family]}.")
    if not slash and "." in target:
        return target
    from difflib import get_close_matches

    near = [f"pettingzoo:{known[id]}" for id in get_close_matches(target.lower(), known, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(near)}?" if near else "forage list environments shows what it has."
    raise ForageError(f"PettingZoo has no environment {target}; {hint}")


def create(target: str, options: dict[str, Any]) -> tuple[Any, bool]:
    """Makes one environment. Returns it, and whether its agents act in turns."""
    family, slash, name = target.partition("/")
    module = f"{FAMILIES[family]}.{name}" if slash else target
    found = make = None
    try:
        found = importlib.import_module(module)
        make = getattr(found, "parallel_env", None) or found.env
        made = make(render_mode="rgb_array", **options)
    except (ImportError, AttributeError, TypeError) as error:
        wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        known = options_of(getattr(found, "raw_env", make)) if wrong else set()
        if wrong and known:
            raise foreign.unknown(f"pettingzoo:{target}", wrong[1], known) from error
        raise ForageError(
            f"pettingzoo:{target} could not be made ({error}); its packages come with pip install "
            f"'pettingzoo[{family if slash else 'all'}]'."
        ) from error
    return made, not hasattr(found, "parallel_env")


def options_of(make: Any) -> set[str]:
    """The options that a class or function names."""
    taken = inspect.signature(make).parameters.values()
    return {option.name for option in taken if option.kind is not option.VAR_KEYWORD} - {"render_mode"}


def horizon(env: Any, turns: bool) -> int | None:
    """The steps of an episode, where the environment limits its cycles; in turns a cycle is several steps."""
    cycles = getattr(env.unwrapped, "max_cycles", None)
    return cycles if isinstance(cycles, int) and not turns else None


class Now(NamedTuple):
    """What one environment says of its agents after a step; leaves `agent ...`."""

    observation: dict[str, np.ndarray]
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


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
        self, target: str, num_envs: int, name: str | None = None, identity: bool | None = None, **options: Any
    ):
        name = name or f"pettingzoo:{target}"
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
        self.gone = np.zeros((num_envs, len(self.agents)), bool)
        self.out_of_time = np.zeros_like(self.gone)
        self.following: Any = None
        limit = horizon(first, self.turns)
        super().__init__(name, self.spaces(), self.one_action(), num_envs, limit, (), len(self.agents))

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
        return spaces.Box(widest.low.astype(np.float32), widest.high.astype(np.float32), dtype=np.float32)

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
        self.gone[:], self.out_of_time[:] = False, False
        started = []
        for index, number in enumerate(seeds(seed, self.num_envs)):
            self._at = index
            started.append(self.begin(index, number))
        self.following = self.stack(started)
        return self.following

    def begin(self, index: int, seed: int | None = None) -> dict[str, np.ndarray]:
        """Starts an episode of one environment and returns what its agents see."""
        env = self.envs[index]
        begun = env.reset(seed=seed)
        self.gone[index], self.out_of_time[index] = False, False
        return self.show(index, None if self.turns else begun[0])

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        if self.following is None:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")
        told, following = [], []
        for index in range(self.num_envs):
            self._at = index
            now = self.advance(index, np.asarray(action)[index])
            told.append(now)
            over = bool((now.terminated | now.truncated).all())
            following.append(self.begin(index) if over else now.observation)
        seen = self.stack([now.observation for now in told])
        self.following = self.stack(following)
        reward, terminated, truncated = (np.stack(parts) for parts in list(zip(*told, strict=True))[1:])
        if self.num_agents == 1:
            reward, terminated, truncated = reward[:, 0], terminated[:, 0], truncated[:, 0]
        result: Any = Step(seen, reward, terminated, truncated, {})  # pyright: ignore[reportArgumentType]
        return HostStep(result, self.following)

    def advance(self, index: int, action: np.ndarray) -> Now:
        """Steps one environment."""
        env, before = self.envs[index], self.gone[index] | self.out_of_time[index]
        action = action.reshape(len(self.agents), *action.shape[self.num_agents > 1 :])
        chosen = {name: self.own(i, action[i]) for i, name in enumerate(self.agents)}
        if self.turns:
            seen = None
            env.step(chosen[env.agent_selection])
            rewards, over, clock = dict(env.rewards), dict(env.terminations), dict(env.truncations)
            while env.agents and (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
                env.step(None)
        else:
            seen, rewards, over, clock, _ = env.step({name: chosen[name] for name in env.agents})
        for i, name in enumerate(self.agents):
            if not before[i]:
                self.gone[index, i] = bool(over.get(name, False))
                self.out_of_time[index, i] = bool(clock.get(name, False)) and not self.gone[index, i]
        reward = np.array([rewards.get(name, 0.0) for name in self.agents], np.float32)
        # The clock ends an agent's episode once; afterwards it has left, as one whose task is over.
        terminated, truncated = self.gone[index] | before, self.out_of_time[index] & ~before
        return Now(self.show(index, seen), np.where(before, np.float32(0), reward), terminated, truncated)

    def own(self, agent: int, action: Any) -> Any:
        """An agent's own part of a padded action, as its space wants it."""
        space = self.acts[agent]
        if isinstance(space, spaces.Discrete):
            return int(space.start) + min(int(action), self.sizes[agent] - 1)
        return np.asarray(action[: self.sizes[agent]], space.dtype)

    def show(self, index: int, seen: dict[str, Any] | None) -> dict[str, np.ndarray]:
        """What the agents of one environment see; `seen` is what it said, or else it is asked."""
        env, number = self.envs[index], len(self.agents)
        observation = np.zeros((number, *self.shape), np.float32)
        mask = np.arange(self.most) < np.array(self.sizes)[:, None]
        here = np.zeros(number, bool)
        for i, name in enumerate(self.agents):
            here[i] = not (self.gone[index, i] or self.out_of_time[index, i])
            if seen is not None and name not in seen:  # it has left, or has not come yet
                here[i] = False
                continue
            said = env.observe(name) if seen is None else seen[name]
            if isinstance(said, dict) and MASK in said:
                allowed = np.asarray(said[MASK], bool)
                if allowed.any():
                    mask[i, : len(allowed)] = allowed
                said = said["observation"]
            flat = np.asarray(said, np.float32) if self.images else flatten(self.seen[i], said)
            observation[i][tuple(map(slice, self.shapes[i]))] = flat
        if self.turns:
            here &= np.array([name == env.agent_selection for name in self.agents]) if env.agents else False
        if number == 1:
            return {"": observation[0]}
        one_hot = np.broadcast_to(
            np.eye(number, dtype=np.float32).reshape(number, *(1,) * (len(self.shape) - 1), number),
            (number, *self.shape[:-1], number),
        )
        together = np.concatenate(list(observation), -1)
        shown = {
            "observation": np.concatenate([observation, one_hot], -1) if self.identity else observation,
            STATE: np.concatenate([np.broadcast_to(together, (number, *together.shape)), one_hot], -1),
            PRESENT: np.where(self.gone[index] | self.out_of_time[index], -1, here).astype(np.int8),
        }
        return shown | ({MASK: mask.astype(np.int8)} if self.masked else {})

    def stack(self, shown: list[dict[str, np.ndarray]]) -> PyTree[np.ndarray]:
        batch = {key: np.stack([one[key] for one in shown]) for key in shown[0]}
        return batch.get("", batch)

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        drawn = self.envs[0].render()
        if not isinstance(drawn, np.ndarray):
            raise ForageError(f"{self.name} cannot be drawn; it has no rgb_array render mode.")
        return drawn.astype(np.uint8)

    def close(self) -> None:
        for env in self.envs:
            env.close()
