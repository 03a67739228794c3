"""PettingZoo on the host: `pettingzoo:mpe/simple_spread_v3`, `pettingzoo:classic/connect_four_v3`.

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
from jaxtyping import Bool, PyTree, UInt8

from forage.core.errors import did_you_mean
from forage.core.host import HostEnvironment, HostStep, Misfit
from forage.core.loading import load_module, look_in
from forage.core.spaces import MASK, PRESENCE, PRESENT, STATE, describe_space
from forage.core.types import ForageError, Step
from forage.environments.adapters.gymnasium.calls import describe_value, is_reward, reset_environment
from forage.environments.adapters.gymnasium.make import frames_per_second
from forage.environments.adapters.jax import common as foreign
from forage.environments.adapters.team_spaces import SharedActions, SharedView

FAMILIES = {
    "classic": "pettingzoo.classic",
    "butterfly": "pettingzoo.butterfly",
    "sisl": "pettingzoo.sisl",
    "mpe": "mpe2",
}
VERSIONED = re.compile(r"\w+_v\d+")


def ids() -> dict[str, str]:
    """Return every id of the families that are installed, with a line of description."""
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
    """Return the id; or a module of your own, here or installed, that has `parallel_env` or `env`."""
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
    hint = did_you_mean(near) or "; forage list environments shows what it has."
    raise ForageError(f"PettingZoo has no environment {target!r}{hint}")


def module_of(target: str) -> Any:
    """Return the module that makes an environment. Raise `ForageError` if there is none, or its import fails."""
    family, slash, name = target.partition("/")
    if not slash:
        found = load_module(target)
        if not hasattr(found, "parallel_env") and not hasattr(found, "env"):
            raise ForageError(f"The module {target} has neither parallel_env nor env, as PettingZoo's modules have.")
        return found
    try:
        return importlib.import_module(f"{FAMILIES[family]}.{name}")
    except ImportError as error:
        raise making_error(target, error) from error


def making_error(target: str, error: Exception) -> ForageError:
    family, slash, _ = target.partition("/")
    packages = f"; its packages come with pip install 'pettingzoo[{family}]'" if slash else ""
    return ForageError(f"pettingzoo:{target} could not be made ({type(error).__name__}: {error}){packages}.")


def create(target: str, options: dict[str, Any]) -> tuple[Any, bool]:
    """Make one environment. Return it, and whether its agents act in turns."""
    found = module_of(target)
    make = getattr(found, "parallel_env", None) or found.env
    try:
        made = make(render_mode="rgb_array", **options)
    except Exception as error:
        wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error)) if isinstance(error, TypeError) else None
        known = options_of(getattr(found, "raw_env", make)) if wrong and wrong[1] in options else set()
        if wrong and known:
            raise foreign.unknown_option(f"pettingzoo:{target}", wrong[1], known) from error
        raise making_error(target, error) from error
    return made, not hasattr(found, "parallel_env")


def options_of(make: Any) -> set[str]:
    """Return the options that a class or function names."""
    taken = inspect.signature(make).parameters.values()
    return {option.name for option in taken if option.kind is not option.VAR_KEYWORD} - {"render_mode"}


def horizon(env: Any, turns: bool) -> int | None:
    """Return the time limit of an episode in steps; `None` without a limit, and in turns, since a cycle is several
    steps.
    """
    cycles = getattr(env.unwrapped, "max_cycles", None)
    return cycles if isinstance(cycles, int) and not turns else None


def has_mask(space: Any) -> bool:
    """Return whether an agent's observation includes a mask of allowed actions."""
    return isinstance(space, spaces.Dict) and MASK in space.spaces


def without_mask(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space of an agent's observation without its mask."""
    return spaces.Dict(rest) if isinstance(rest := beside_mask(space), dict) else rest


def beside_mask(seen: Any) -> Any:
    """Return an observation without its mask: its entry `observation` if no other is left, else a dictionary."""
    if not (isinstance(seen, dict) or has_mask(seen)):
        return seen
    rest = {key: part for key, part in seen.items() if key != MASK}
    return rest["observation"] if set(rest) == {"observation"} else rest


def check_reward(agent: str, reward: Any) -> Any:
    """Return an agent's reward. Raise `Misfit` if it is not one number."""
    if type(reward) is not float and not is_reward(reward, ()):
        raise Misfit(f"returned as reward of agent {agent} {describe_value(reward)}", "it should be one number")
    return reward


def totals(env: Any) -> dict[str, float]:
    """Return the rewards that `last()` of an environment in turns would tell each agent; none if it keeps none."""
    return dict(getattr(env, "_cumulative_rewards", None) or {})


def check_paid(agent: str, rewards: Mapping[str, float], before: Mapping[str, float], now: Mapping[str, float]) -> None:
    """Raise `Misfit` if the `rewards` of a step by `agent` differ from the growth of the totals of `last()`."""
    for name, total in now.items():
        had = 0.0 if name == agent else float(before.get(name, 0.0))
        paid, told = float(rewards.get(name, 0.0)), float(total) - had
        if name in before and abs(paid - told) > 1e-4 * max(1.0, abs(paid), abs(told), abs(had)):
            raise Misfit(
                f"pays agent {name} {paid:g} in rewards and {told:g} in what last() returns",
                "step should set the acting agent's _cumulative_rewards to 0, call self._clear_rewards() before new "
                "rewards are set, and self._accumulate_rewards() once at its end",
            )


class TeamObservation(NamedTuple):
    """The observations of all agents, before they are put together; leaves `env agent ...`."""

    observation: np.ndarray
    mask: np.ndarray  # bool
    presence: np.ndarray  # int8


class PettingZooEnvironment(HostEnvironment):
    """`num_envs` environments of PettingZoo, with agents in parallel or in turns, stepped one after another.

    - Each agent sees `{"observation", "state", "present"}`, and `"action_mask"` if the environment has one (in its
      observations or infos) or the agents have different numbers of actions. `team_spaces` describes the common form of
      different spaces; with `identity` (the default for agents that differ) the agent's number is appended,
      one-hot. `state`, for a central critic, is all observations side by side and the agent's number.
    - In turns, a step is one agent's; the others wait, and their actions are ignored. Rewards reach each agent at the
      step of their arrival. Agents that are done are removed at once.
    - An agent that has left stays terminated without reward until all have; one that has not come yet waits.
    - If an environment returns both terminated and truncated, terminated wins.
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
        """Pass `options`, and `own` under any name, to the environment's constructor."""
        name, options = name or f"pettingzoo:{target}", {**options, **(own or {})}
        first, self.turns = create(target, options)
        self.envs = [first, *(create(target, options)[0] for _ in range(num_envs - 1))]
        self.agents: list[str] = list(first.possible_agents)
        acts = {agent: first.action_space(agent) for agent in self.agents}
        shown = {agent: first.observation_space(agent) for agent in self.agents}
        self.shown = list(shown.values())
        self.actions = SharedActions(name, acts, num_envs)
        self.view = SharedView(name, {agent: without_mask(space) for agent, space in shown.items()})
        self.masked = any(map(has_mask, self.shown)) or self.says_masks(name, target, first)
        if self.masked and self.actions.counts is None:
            raise ForageError(
                f"{name} has an {MASK} beside its observation, and actions in {describe_space(self.actions.space)}; "
                f"a mask "
                f"says which of finitely many choices are allowed, so leave it out or make the actions choices."
            )
        # Where agents have different numbers of actions, a mask tells them.
        self.masked = self.masked or (self.actions.counts is not None and not self.actions.same)
        differ = not (self.actions.same and self.view.same)
        self.identity = differ if identity is None else identity
        self.gone = np.zeros((num_envs, len(self.agents)), bool)
        self.out_of_time = np.zeros_like(self.gone)
        self.following: Any = None
        self.broken: dict[str, str] = {}
        """Promises of PettingZoo that the environments have broken, in words, the first of each kind."""
        limit = horizon(first, self.turns)
        super().__init__(name, self.team_space(), self.actions.space, num_envs, limit, (), len(self.agents))

    @classmethod
    def options_of(cls, target: str) -> set[str]:
        """Return the options that the environment's own constructor names."""
        found = module_of(target)
        return options_of(getattr(found, "raw_env", None) or getattr(found, "parallel_env", None) or found.env)

    @property
    def frames_per_second(self) -> float | None:
        return frames_per_second(self.envs[0])

    def says_masks(self, name: str, target: str, env: Any) -> bool:
        """Return whether the infos of a reset hold masks."""
        try:
            infos = self.start(env, 0)[1]
        except Misfit as error:
            raise ForageError(f"{name} {error.message} at the reset; {error.should}.") from error
        except Exception as error:
            raise making_error(target, error) from error
        return any(MASK in (info or {}) for info in infos.values())

    def team_space(self) -> spaces.Space[Any]:
        number, seen = len(self.agents), self.view.box
        parts: dict[str, spaces.Space[Any]] = {"observation": seen}
        if number > 1:
            parts = {
                "observation": self.view.with_agent_number(1, number) if self.identity else seen,
                STATE: self.view.with_agent_number(number, number),
                PRESENT: PRESENCE,
            }
        if self.masked:
            parts[MASK] = spaces.MultiBinary(self.actions.allowed.shape[1])
        return spaces.Dict(parts) if len(parts) > 1 else seen

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        seen = self.nothing()
        for index, number in enumerate(self.seeds(seed)):
            self.begin(seen, index, number)
        self.following = self.joint_observation(seen)
        return self.following

    def begin(self, into: TeamObservation, index: int, seed: int | None = None) -> None:
        """Start an episode of one environment, and write its agents' observations."""
        self._at = index
        seen, infos = self.start(self.envs[index], seed)
        self.gone[index], self.out_of_time[index] = False, False
        self.write(into, index, seen, infos)

    def start(self, env: Any, seed: int | None) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """Reset an environment. Return its agents' observations (`None` in turns) and their infos."""
        if not self.turns:
            return reset_environment(env, seed)
        env.reset(seed=seed)
        return None, env.infos

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        if self.following is None:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")
        shape = self.gone.shape
        reward, over, clock = np.zeros(shape, np.float32), np.zeros(shape, bool), np.zeros(shape, bool)
        chosen, said = self.actions.singles(np.asarray(action).reshape(*shape, *(self.action_space.shape or ()))), []
        there = np.zeros(shape, bool)
        for index, env in enumerate(self.envs):
            self._at = index
            own = {name: each[index] for name, each in zip(self.agents, chosen, strict=True)}
            acting = list(env.agents)
            seen, rewards, ends, clocks, infos = self.advance(env, own)
            self.look(env, acting, rewards, ends, clocks)
            reward[index] = [check_reward(name, rewards.get(name, 0.0)) for name in self.agents]
            over[index] = [ends.get(name, False) for name in self.agents]
            clock[index] = [clocks.get(name, False) for name in self.agents]
            there[index] = [name in env.agents for name in self.agents]
            said.append((seen, infos))
        before = self.gone | self.out_of_time
        self.gone |= over & ~before
        self.out_of_time |= clock & ~before & ~over
        # Nobody left is the end of the episode, also for those of whom nothing was said.
        nobody = ~(there & ~self.gone & ~self.out_of_time).any(1, keepdims=True)
        self.gone |= nobody & ~self.out_of_time
        # The clock ends an agent's episode once; afterwards it has left, as one whose task is over.
        terminated, truncated = self.gone | before, self.out_of_time & ~before
        reward[before] = 0
        seen = self.nothing()
        for index in range(self.num_envs):
            self._at = index
            self.write(seen, index, *said[index])
        observation = self.following = self.joint_observation(seen)
        if len(ended := np.flatnonzero((terminated | truncated).all(1))):
            fresh = TeamObservation(*(array.copy() for array in seen))
            for index in ended.tolist():
                self.begin(fresh, index)
            self.following = self.joint_observation(fresh)
        if self.num_agents == 1:
            reward, terminated, truncated = reward[:, 0], terminated[:, 0], truncated[:, 0]
        result: Any = Step(observation, reward, terminated, truncated, {})  # pyrefly: ignore[bad-argument-type]
        return HostStep(result, self.following)

    def look(
        self, env: Any, acting: list[str], rewards: Mapping[str, Any], over: Mapping[str, Any], cut: Mapping[str, Any]
    ) -> None:
        """Remember the promises that a step breaks, and that a run can do without; see `broken`."""
        done = {name for name in acting if over.get(name) or cut.get(name)}
        silent = [name for name in acting if name not in env.agents and name not in done]
        if silent:
            after = "nobody is left" if not env.agents else "it is not in agents any more"
            self.broken.setdefault(
                "left",
                f"agent {silent[0]} was neither terminated nor truncated, and {after}; say so in the step in which it "
                f"leaves",
            )
        if stays := [name for name in done if name in env.agents]:
            self.broken.setdefault("stays", f"agent {stays[0]} is done and stays in agents; take it out in that step")
        if missing := [name for name in acting if name not in rewards or name not in over or name not in cut]:
            self.broken.setdefault(
                "missing",
                f"rewards, terminations or truncations leave out agent {missing[0]}, which acted; give each its own",
            )
        for name, paid in rewards.items():
            if name not in acting and name not in env.agents and np.any(paid):
                self.broken.setdefault(
                    "paid", f"agent {name} was paid {paid} and is not there; it is paid in the step in which it leaves"
                )

    def advance(self, env: Any, chosen: dict[str, Any]) -> tuple[Any, ...]:
        """Step one environment. Return its agents' observations, rewards, terminated, truncated and infos."""
        if self.turns:
            return self.take_turn(env, chosen)
        result = env.step({name: chosen[name] for name in env.agents})
        if not (isinstance(result, tuple) and len(result) == 5):
            should = "it should return (observations, rewards, terminations, truncations, infos)"
            raise Misfit(f"returned {describe_value(result)} from step", should)
        if strange := [name for name in (*result[1], *result[2], *result[3], *env.agents) if name not in self.agents]:
            raise Misfit(
                f"names an agent {strange[0]}", f"possible_agents has {', '.join(map(str, self.agents))} alone"
            )
        return result

    def take_turn(self, env: Any, chosen: dict[str, Any]) -> tuple[Any, ...]:
        """Step the agent in turn and remove agents that are done. Return the same tuple as `advance`."""
        agent, before = env.agent_selection, totals(env)
        env.step(chosen[agent])
        rewards, over, clock = dict(env.rewards), dict(env.terminations), dict(env.truncations)
        check_paid(agent, rewards, before, totals(env))
        if not env.agents:
            return {}, rewards, over, clock, {}
        done = [name for name in env.agents if over.get(name) or clock.get(name)]
        if not done:
            return None, rewards, over, clock, env.infos
        # What those see who are done can be asked for until they are taken out.
        last = {name: env.observe(name) for name in done}
        infos = {name: dict(env.infos.get(name) or {}) for name in done}
        for _ in range(len(env.agents)):
            if not env.agents:
                break
            following = env.agent_selection
            if not (env.terminations.get(following) or env.truncations.get(following)):
                break
            env.step(None)
            if env.agents and following in env.agents:
                raise Misfit(f"keeps agent {following} after it is done", "step(None) should take it out of agents")
        there = {name: env.observe(name) for name in env.agents if name not in done}
        return last | there, rewards, over, clock, {**env.infos, **infos}

    def nothing(self) -> TeamObservation:
        """Arrays to write to."""
        shape, box, allowed = self.gone.shape, self.view.box, self.actions.allowed
        mask = np.broadcast_to(allowed, (self.num_envs, *allowed.shape)).copy()
        return TeamObservation(np.zeros((*shape, *box.shape), box.dtype), mask, np.zeros(shape, np.int8))

    def write(self, into: TeamObservation, index: int, seen: dict[str, Any] | None, infos: dict[str, Any]) -> None:
        """Write the observations of one environment's agents; `seen` holds them, or else the environment is asked."""
        env = self.envs[index]
        left = (self.gone[index] | self.out_of_time[index]).tolist()
        acting = env.agent_selection if self.turns and env.agents else None
        into.observation[index], into.mask[index] = 0, self.actions.allowed
        for i, name in enumerate(self.agents):
            here = not self.turns or name == acting
            if name not in seen if seen is not None else left[i] or name not in env.agents:
                here = False  # it has left, or has not come yet
            else:
                said = env.observe(name) if seen is None else seen[name]
                if has_mask(self.shown[i]):
                    mask, said = said.get(MASK), beside_mask(said)
                else:
                    mask = (infos.get(name) or {}).get(MASK)
                if mask is not None:
                    into.mask[index, i] = self.heard(i, mask)
                self.view.write(into.observation[index, i], i, said)
            into.presence[index, i] = -1 if left[i] else here

    def heard(self, agent: int, mask: Any) -> Bool[np.ndarray, " option"]:
        """Return the mask of one agent. Raise `ForageError` for a mask that agents would not see."""
        if not self.masked:
            raise ForageError(
                f"{self.name} gives agent {self.agents[agent]} an {MASK} in its infos that cannot be obeyed; its "
                f"actions, in {describe_space(self.action_space)}, should be choices, and the mask in the infos of "
                f"each "
                f"reset too, the first as well."
            )
        return self.actions.mask(agent, mask)

    def joint_observation(self, seen: TeamObservation) -> PyTree[np.ndarray]:
        """Return the observation of a batch: agent identities, the critic's state, presence and action masks."""
        observation, number = seen.observation, len(self.agents)
        masks = {MASK: seen.mask.astype(np.int8)} if self.masked else {}
        if number == 1:
            parts = {"observation": observation[:, 0]} | {key: mask[:, 0] for key, mask in masks.items()}
            return parts if masks else parts["observation"]
        each = observation.shape[:-1]  # env agent and an image's height and width
        who = (np.eye(number) * self.view.one).astype(observation.dtype)
        who = np.broadcast_to(who.reshape(number, *(1,) * (len(each) - 2), number), (*each, number))
        state = np.moveaxis(observation, 1, -2).reshape(each[0], 1, *each[2:], -1)
        state = np.concatenate([np.broadcast_to(state, (*each, state.shape[-1])), who], -1)
        if self.identity:
            observation = np.concatenate([observation, who], -1)
        return {"observation": observation, STATE: state, PRESENT: seen.presence} | masks

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        drawn = self.envs[0].render()
        if not isinstance(drawn, np.ndarray):
            raise ForageError(f"{self.name} cannot be drawn; it has no rgb_array render mode.")
        return foreign.picture(self.name, drawn)

    def close(self) -> None:
        for env in self.envs:
            env.close()
