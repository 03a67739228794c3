"""Gymnasium environments on the host road: `gymnasium:HalfCheetah-v5`, `gymnasium:ALE/Pong-v5`, or a class of yours."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import pickle
import re
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector.utils import batch_space, iterate
from jaxtyping import PyTree, UInt8

from forage.environments.adapters import saving
from forage.environments.adapters.atari import PREPROCESSING, frames_limit, is_atari, make_atari
from forage.environments.adapters.loading import load_class
from forage.environments.host import HostEnvironment, HostStep, array_dtype
from forage.types import ForageError, Step

ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
MASKED = {"observation", "action_mask"}
NOT_OPTIONS = {"self", "args", "kwargs", "render_mode"}


class GymnasiumEnvironment(HostEnvironment):
    """`num_envs` Gymnasium environments, stepped one after another, or each in a process of its own.

    `target` is an id for `gymnasium.make` or `module:Class` of a `gymnasium.Env`; `options` go to its constructor
    (`max_episode_steps` limits the episode; Atari games also take those of `AtariPreprocessing`).

    - Observations: floats become `float32`, long integers `int32`. A nested space (Dict, Tuple, ...) is flattened to
      one Box, except `{"observation", "action_mask"}`, which stays. An `action_mask` in the info of the first reset
      makes such a Dict, with `action_mask` an `int8` array that is 1 where an action is allowed.
    - Actions are passed on as they are, counted from 0 where the space is Discrete; they are not clipped.
    - Where an environment says both terminated and truncated, terminated wins.
    - `info` names entries of the environment's info that `Step.info` shall hold, `float32[env]`, NaN where missing.
    - `parallel=True` uses Gymnasium's AsyncVectorEnv: worth it when one step takes longer than about a millisecond.
      Otherwise this steps in a plain loop, because SyncVectorEnv takes about as long again as a step of HalfCheetah.
    - `snapshots=False` does not try whether the environment can be saved exactly (which starts two more of it).
      That is the default for a class of yours, because it may be connected to something real.

    Environment `i` is seeded with entry `i` of `seeds(seed, num_envs)`.
    """

    def __init__(
        self,
        target: str,
        num_envs: int,
        name: str | None = None,
        parallel: bool = False,
        info: Sequence[str] = (),
        snapshots: bool | None = None,
        **options: Any,
    ):
        name = name or target
        make = functools.partial(make_single, target, **options)
        try:
            first = make(render=True)
        except ForageError:
            raise
        except Exception as error:
            raise _failure(name, target, error) from error
        super().__init__(
            name,
            _array_space(first.observation_space),
            _action_space(name, first.action_space),
            num_envs,
            _horizon(first),
        )
        self._make, self._info_names = make, tuple(info)
        self._actions = first.action_space
        self._try_snapshots = (not is_class(target) if snapshots is None else snapshots) and not parallel
        self._exact: bool | None = None
        self._observation: PyTree[np.ndarray] | None = None
        self._layout = {
            key: (space.shape or (), array_dtype(space), set()) for key, space in _parts(self.observation_space).items()
        }
        self._single = not isinstance(self.observation_space, spaces.Dict)
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._vector: gymnasium.vector.AsyncVectorEnv | None = None
        if parallel:
            first.close()
            self._vector = gymnasium.vector.AsyncVectorEnv(
                [functools.partial(make, render=index == 0) for index in range(num_envs)],
                copy=False,  # what comes out is copied into arrays of our own
                context="forkserver",  # a fork of a process in which JAX has threads can hang
                autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
            )
        else:
            self._envs = [first, *(make() for _ in range(num_envs - 1))]

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        chosen = seeds(seed, self.num_envs)
        observation = self._empty()
        if self._vector is not None:
            batch, _ = self._vector.reset(seed=list(chosen))
            self._write_batch(observation, batch)
        else:
            for index, (env, number) in enumerate(zip(self._envs, chosen, strict=True)):
                self._at = index
                self._write(observation, index, env.reset(seed=number)[0])
        self._observation = observation
        return self._tree(observation)

    def _send(self, action: PyTree[np.ndarray]) -> None:
        if self._observation is None:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")
        if self._vector is not None:
            self._vector.step_async(list(self._singles(action)))  # pyright: ignore[reportArgumentType]

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        return self._receive_parallel() if self._vector is not None else self._receive_serial(action)

    def _receive_serial(self, action: PyTree[np.ndarray]) -> HostStep:
        observation = self._empty()
        reward = np.empty(self.num_envs, np.float32)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        infos = []
        ended = []
        for index, (env, chosen) in enumerate(zip(self._envs, self._singles(action), strict=True)):
            self._at = index
            seen, reward[index], over, clock, info = env.step(chosen)
            self._write(observation, index, seen)
            if self._info_names:
                infos.append(info)
            if over or clock:
                terminated[index], truncated[index] = over, not over
                ended.append(index)
        following = observation
        if ended:
            following = {key: array.copy() for key, array in observation.items()}
            for index in ended:
                self._at = index
                self._write(following, index, self._envs[index].reset()[0])
        return self._result(observation, following, reward, terminated, truncated, self._gather(infos))

    def _receive_parallel(self) -> HostStep:
        assert self._vector is not None
        batch, reward, terminated, truncated, info = self._vector.step_wait()
        following = self._empty()
        self._write_batch(following, batch)
        observation = following
        ended = np.flatnonzero(terminated | truncated).tolist()
        if ended:
            observation = {key: array.copy() for key, array in following.items()}
            for index in ended:
                self._write(observation, index, info["final_obs"][index])
        # What was reported with a step that ended its episode is kept apart from the info of the reset after it.
        numbers = range(self.num_envs) if self._info_names else ()
        infos = [_environment_info(info, index, index in ended) for index in numbers]
        return self._result(
            observation,
            following,
            np.asarray(reward, np.float32),
            np.array(terminated, np.bool_),
            truncated & ~terminated,
            self._gather(infos),
        )

    def _result(self, observation: Any, following: Any, reward: Any, terminated: Any, truncated: Any, info: Any):
        self._observation = following
        seen = self._tree(observation)
        after = seen if following is observation else self._tree(following)
        return HostStep(Step(seen, reward, terminated, truncated, info), after)

    def _singles(self, action: PyTree[np.ndarray]) -> Any:
        """The action of each environment, as its own space wants it."""
        space = self._actions
        if isinstance(space, spaces.Discrete):
            values = np.asarray(action)
            if values.shape != (self.num_envs,):
                raise ForageError(
                    f"{self.name} was sent actions of shape {list(values.shape)}; "
                    f"it takes [{self.num_envs}], one integer for each environment."
                )
            start = int(space.start)
            return [value + start for value in values.tolist()] if start else values.tolist()
        if isinstance(space, ARRAY_SPACES):
            values = np.asarray(action, space.dtype)
            if isinstance(space, spaces.MultiDiscrete):
                values = values + space.start
            if values.shape != (self.num_envs, *(space.shape or ())):
                raise ForageError(
                    f"{self.name} was sent actions of shape {list(values.shape)}; "
                    f"it takes {[self.num_envs, *(space.shape or ())]}."
                )
            return list(values)
        return list(iterate(batch_space(space, self.num_envs), action))

    def _empty(self) -> dict[str, np.ndarray]:
        # New arrays each step: JAX may look at NumPy's memory without copying it.
        return {key: np.empty((self.num_envs, *shape), dtype) for key, (shape, dtype, _) in self._layout.items()}

    def _tree(self, arrays: dict[str, np.ndarray]) -> PyTree[np.ndarray]:
        return arrays[""] if self._single else arrays

    def _write(self, arrays: dict[str, np.ndarray], index: int, observation: Any) -> None:
        """Puts one environment's observation into the batch. Assigning would broadcast and round silently: it looks."""
        for key, (shape, dtype, fits) in self._layout.items():
            value = np.asarray(observation if key == "" else observation[key])
            if value.shape != shape or not (value.dtype in fits or _fits(value.dtype, dtype)):
                raise ForageError(
                    f"{self.name} returned observation {key or ''}{' ' if key else ''}{value.dtype}{list(value.shape)} "
                    f"at step {self._steps} in environment {index}; its space promises {dtype}{list(shape)}."
                )
            fits.add(value.dtype)
            arrays[key][index] = value

    def _write_batch(self, arrays: dict[str, np.ndarray], batch: Any) -> None:
        for key, array in arrays.items():
            array[...] = batch if key == "" else batch[key]

    def _gather(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {
            name: np.array([float(info.get(name, np.nan)) for info in infos], np.float32) for name in self._info_names
        }

    def _snapshot(self) -> bytes | None:
        if not self._try_snapshots:
            return None
        if self._exact is None:
            self._exact = saving.exact(self._make)
        if not self._exact:
            return None
        if self._observation is None:
            raise ForageError(f"{self.name} has no state to save before its first reset; call reset(seed) first.")
        state = (self.name, self._observation, [saving.save(env) for env in self._envs])
        return zlib.compress(pickle.dumps(state), 1)

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        if self._vector is not None:
            return super()._restore(snapshot)
        name, observation, saved = pickle.loads(zlib.decompress(snapshot))
        if name != self.name or len(saved) != self.num_envs:
            raise ForageError(
                f"The snapshot is of {len(saved)} environments of {name}; "
                f"{self.num_envs} of {self.name} cannot continue from it."
            )
        for index, (env, state) in enumerate(zip(self._envs, saved, strict=True)):
            self._at = index
            env.reset(seed=0)  # some simulators allocate on their first reset
            saving.load(env, state)
        self._observation = observation
        return self._tree(observation)

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        frame = self._vector.call("render")[0] if self._vector is not None else self._envs[0].render()
        if not isinstance(frame, np.ndarray):
            return super()._render()
        return frame.astype(np.uint8, copy=False)

    def close(self) -> None:
        for env in self._envs:
            env.close()
        if self._vector is not None:
            self._vector.close()


def seeds(seed: int, num_envs: int) -> list[int]:
    """One seed for each environment: unlike `seed + i`, no two runs with neighbouring seeds share an environment."""
    return [int(number) for number in np.random.SeedSequence(seed).generate_state(num_envs) >> 1]  # below 2^31


def is_class(target: str) -> bool:
    """Whether the target is `module:Class` or `file.py:Class` rather than an id; ids end in `-v<number>`."""
    _, colon, name = target.rpartition(":")
    return bool(colon) and name.isidentifier()


def make_single(target: str, render: bool = False, max_episode_steps: int | None = None, **options: Any) -> Any:
    """Makes one environment whose observations are arrays, or `{"observation", "action_mask"}` of arrays."""
    if is_class(target):
        cls = load_class(target)
        env = cls(**options)
        if max_episode_steps is not None:
            env = gymnasium.wrappers.TimeLimit(env, max_episode_steps)
    elif is_atari(target):
        mode = {"render_mode": "rgb_array"} if render else {}
        return make_atari(target, max_episode_steps=max_episode_steps, **{**mode, **options})
    else:
        mode = {"render_mode": "rgb_array"} if render and _draws(target) else {}
        if render and sys.platform == "linux" and not os.environ.get("DISPLAY"):
            # Without a display MuJoCo's own choice fails, and takes the process with it the second time.
            os.environ.setdefault("MUJOCO_GL", "egl")
        env = gymnasium.make(
            target, max_episode_steps=max_episode_steps, disable_env_checker=True, **{**mode, **options}
        )
    return plain(env)


def plain(env: Any) -> Any:
    """Wraps an environment whose observation is not an array yet, or whose info says which actions are allowed."""
    space = env.observation_space
    if isinstance(space, spaces.Dict) and set(space.spaces) == MASKED:
        return env if all(isinstance(part, ARRAY_SPACES) for part in space.spaces.values()) else ArrayObservation(env)
    if isinstance(env.action_space, spaces.Discrete) and "action_mask" in env.reset(seed=0)[1]:
        return ArrayObservation(env, mask_in_info=True)
    return env if isinstance(space, ARRAY_SPACES) and not _starts_late(space) else ArrayObservation(env)


class ArrayObservation(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Flattens a nested observation to one Box, and puts the action mask beside it where there is one."""

    def __init__(self, env: Any, mask_in_info: bool = False):
        super().__init__(env)
        self.mask_in_info = mask_in_info
        space = env.observation_space
        self.masked = mask_in_info or (isinstance(space, spaces.Dict) and set(space.spaces) == MASKED)
        self._seen = space["observation"] if self.masked and not mask_in_info else space
        self._start = int(self._seen.start) if isinstance(self._seen, spaces.Discrete) else 0
        seen = _flat_space(str(env), self._seen)
        if self.masked:
            mask = spaces.MultiBinary(int(env.action_space.n)) if mask_in_info else space["action_mask"]
            seen = spaces.Dict({"observation": seen, "action_mask": mask})
        self.observation_space = seen

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._convert(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._convert(observation, info), reward, terminated, truncated, info

    def _convert(self, observation: Any, info: dict[str, Any]) -> Any:
        seen = observation["observation"] if self.masked and not self.mask_in_info else observation
        if isinstance(self._seen, spaces.Discrete):
            seen = np.asarray(seen - self._start)
        elif not isinstance(self._seen, ARRAY_SPACES):
            seen = spaces.flatten(self._seen, seen)
        if not self.masked:
            return seen
        # At the end of an episode some environments leave the mask out; then every action is allowed.
        space = self.observation_space["action_mask"]  # pyright: ignore[reportIndexIssue]
        mask = info.get("action_mask", np.ones(space.shape)) if self.mask_in_info else observation["action_mask"]
        return {"observation": seen, "action_mask": np.asarray(mask).astype(space.dtype)}


def _flat_space(name: str, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    if isinstance(space, ARRAY_SPACES):
        return space
    if not space.is_np_flattenable:
        raise ForageError(
            f"{name} has observations in {space}, whose size changes; "
            f"spaces made of Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple work."
        )
    return spaces.flatten_space(space)


def _starts_late(space: gymnasium.Space[Any]) -> bool:
    return isinstance(space, spaces.Discrete) and int(space.start) != 0


def _array_space(space: Any) -> gymnasium.Space[Any]:
    """The same space in the dtypes that observations travel in."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _array_space(part) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Box) and array_dtype(space) != space.dtype:
        dtype = array_dtype(space)
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        low, high = (np.clip(bound, limits.min, limits.max) for bound in (space.low, space.high))
        if dtype.kind == "f":
            # Bounds as large as float64 allows mean that there is none.
            low = np.where(space.low < limits.min, -np.inf, low)
            high = np.where(space.high > limits.max, np.inf, high)
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)
    return space


def _action_space(name: str, space: Any) -> gymnasium.Space[Any]:
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec)
    if not isinstance(space, (*ARRAY_SPACES, spaces.Dict, spaces.Tuple)):
        raise ForageError(f"{name} has actions in {space}; Box, Discrete, MultiDiscrete and MultiBinary work.")
    return _array_space(space)


def _parts(space: gymnasium.Space[Any]) -> dict[str, gymnasium.Space[Any]]:
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {"": space}


def _fits(found: np.dtype, wanted: np.dtype) -> bool:
    # Integers may be shortened (int64 to int32), floats too; a float never becomes an integer.
    return np.can_cast(found, wanted, "same_kind") or (found.kind in "iub" and wanted.kind in "iub")


def _horizon(env: Any) -> int | None:
    """The tightest limit on an episode's steps among the wrappers."""
    limits = []
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            limits.append(layer._max_episode_steps)
        layer = layer.env
    if type(layer).__module__.startswith("ale_py"):
        limits.append(frames_limit(env))
    return min((limit for limit in limits if limit is not None), default=None)


def _creator(target: str) -> Any:
    if is_class(target):
        return load_class(target)
    creator = gymnasium.spec(target).entry_point
    return load_env_creator(creator) if isinstance(creator, str) else creator


def _draws(id: str) -> bool:
    return "rgb_array" in getattr(_creator(id), "metadata", {}).get("render_modes", ())


def _failure(name: str, target: str, error: Exception) -> ForageError:
    """Why an environment could not be made, in one sentence."""
    if isinstance(error, gymnasium.error.DependencyNotInstalled):
        extra = next((extra for extra in ("mujoco", "atari") if extra in str(error).lower()), None)
        need = f"pip install 'forage-rl[{extra}]'" if extra else str(error)
        return ForageError(f"{name} needs a library that is not installed: {need}.")
    if isinstance(error, TypeError) and (match := re.search(r"unexpected keyword argument '(\w+)'", str(error))):
        classes = getattr(_creator(target), "__mro__", ())
        known = {"parallel", "info", "snapshots", "max_episode_steps"} | (
            {"preprocess", *PREPROCESSING} if is_atari(target) else set()
        )
        for cls in classes[: -1 if classes else None]:
            if "__init__" in vars(cls):
                known |= {key for key in inspect.signature(cls.__init__).parameters if key not in NOT_OPTIONS}
        near = difflib.get_close_matches(match[1], known, n=3, cutoff=0.4) or sorted(known)
        return ForageError(f"{name} has no option {match[1]}; the nearest are {', '.join(near)}.")
    return ForageError(f"{name} could not be made: {error}")


def _environment_info(info: dict[str, Any], index: int, ended: bool) -> dict[str, Any]:
    """One environment's own info out of what the vector environment merged."""
    if ended:
        info = info.get("final_info", {})
    return {
        key: value[index]
        for key, value in info.items()
        if not key.startswith("_") and not isinstance(value, dict) and f"_{key}" in info and info[f"_{key}"][index]
    }
