"""EnvPool on the host: `envpool:Pong-v5`. Simulation in C++ threads, all environments at once."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import PyTree, UInt8

from forage.core.errors import did_you_mean
from forage.core.host import HostEnvironment, HostStep, array_dtype, seeds
from forage.core.spaces import StackedBox, Tokens, spaces_by_path
from forage.core.types import ForageError, Step
from forage.environments.adapters.gymnasium.spaces import apart_space, has_loose_mask, mask_fits, split_mask_part


class EnvPoolEnvironment(HostEnvironment):
    """`num_envs` environments of one EnvPool, in its Gymnasium interface.

    EnvPool starts an episode one step late: the step after an end ignores the action and returns the first
    observation. That step is no transition, so environments whose episode ended are reset at once, by themselves,
    and every `HostStep` is of real steps only. What a step led to is what EnvPool returned with it, also when time
    ran out.

    - Observations: floats become `float32`; stacked images, channels first in EnvPool, have their channels last
      (`uint8[84, 84, 4]` for Atari). A Dict of Boxes is one vector, in its own order, unless `flatten=False`; any other
      Dict stays one, with an action mask that is among its parts put beside them, and MiniGrid's mission as `Tokens`.
    - `options` are EnvPool's own (`max_episode_steps`, `episodic_life`, `num_threads`, ...). Atari games press fire
      after a reset where a game waits for it, and have no sticky actions, unless options say otherwise.
    - `info` names entries of EnvPool's info that `Step.info` shall hold, `float32[env]`.
    - Its state cannot be saved: `snapshot` is `None`.

    EnvPool takes its seeds when it is made, so `reset` with another seed makes it anew. Environment `i` is seeded with
    entry `i` of `seeds(seed, num_envs)`: of one number EnvPool would make neighbours, shared with the next run's.
    """

    def __init__(
        self,
        target: str,
        num_envs: int,
        name: str | None = None,
        info: Sequence[str] = (),
        flatten: bool | None = None,
        **options: Any,
    ):
        pool = load_envpool()
        target = canonical(target)
        name = name or f"envpool:{target}"
        self._target, self._options, self._info_names = target, options, tuple(info)
        config = pool.make_spec(target).config
        for option in options:
            if option not in {*config._fields, "render_mode"} or option in FIXED:
                known = sorted(set(config._fields) - FIXED)
                hint = did_you_mean(difflib.get_close_matches(option, known, n=3, cutoff=0.4))
                raise ForageError(f"{name} has no option {option!r}" + (hint or f"; it has {', '.join(known)}."))
        self._pool, self._made = self._make(0, num_envs), (0, 0)
        space = self._pool.single_observation_space
        boxes = all(isinstance(leaf, spaces.Box) for leaf in spaces_by_path(space).values())
        self._pool_space, self._flatten = space, boxes if flatten is None else flatten
        self._mask: bool | None = None  # whether a mask among other things fits the actions; none is there
        self._mission = load_envpool().registration.registry.specs[target][0] == "envpool.minigrid"
        # Frames stacked in front, as in Atari; images that have their channels last already stay.
        image = isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8
        self._images = image and space.shape[0] < space.shape[2]
        actions = self._pool.single_action_space
        self._action_dtype = actions.dtype
        limit = dict(self._pool.config).get("max_episode_steps")
        super().__init__(name, self._space(space), _as_float32(actions), num_envs, limit if limit else None)
        self._started = False
        self._ids = np.arange(num_envs, dtype=np.int32)

    def _make(self, seed: int, num_envs: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # EnvPool's own spaces do not fit their dtypes exactly
            return load_envpool().make(
                self._target,
                env_type="gymnasium",
                num_envs=num_envs,
                seed=seeds(seed, self.first + num_envs)[self.first :],
                **{"render_mode": "rgb_array", **self._options},
            )

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        seed = seed % 2**31
        if self._started or (seed, self.first) != self._made:
            self._pool.close()
            self._pool, self._made = self._make(seed, self.num_envs), (seed, self.first)
        self._started = True
        observation, info = self._pool.reset()
        order = in_order(info["env_id"])
        return _rows(self._convert(observation), order)

    def _send(self, action: PyTree[np.ndarray]) -> None:
        if not self._started:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")
        values = np.asarray(action, self._action_dtype)
        expected = (self.num_envs, *(self.action_space.shape or ()))
        if values.shape != expected:
            raise ForageError(f"{self.name} was sent actions of shape {list(values.shape)}; it takes {list(expected)}.")
        self._pool.send(values, self._ids)

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        raw, reward, terminated, truncated, info = self._pool.recv()
        order = in_order(info["env_id"])
        observation = _rows(self._convert(raw), order)
        terminated: Any = np.array(terminated)[order]  # EnvPool's own arrays are not kept
        truncated = truncated[order] & ~terminated
        following = observation
        ended = np.flatnonzero(terminated | truncated).astype(np.int32)
        if len(ended):
            first, fresh = self._pool.reset(ended)
            following = jax.tree.map(np.copy, observation)
            for array, new in zip(jax.tree.leaves(following), jax.tree.leaves(self._convert(first)), strict=True):
                array[fresh["env_id"]] = new
        named: Any = {name: self._info(info, name, order) for name in self._info_names}
        rewards: Any = np.array(reward, np.float32)[order]
        step = Step(observation, rewards, terminated, truncated, named)
        return HostStep(step, following)

    @property
    def info_names(self) -> tuple[str, ...]:
        return self._info_names

    @property
    def info_seen(self) -> tuple[str, ...]:
        return self._info_names  # a name that is not there fails at the first step

    def _info(self, info: dict[str, Any], name: str, order: np.ndarray | slice) -> np.ndarray:
        if name not in info:
            raise ForageError(f"{self.name} has no info {name}; it has {', '.join(sorted(info))}.")
        return np.array(info[name], np.float32)[order]

    def _space(self, space: Any) -> Any:
        if isinstance(space, spaces.Dict) and not self._flatten:
            parts = {key: self._space(part) for key, part in space.spaces.items()}
            if self._mission and "mission" in parts:
                parts["mission"] = Tokens(parts["mission"].shape[0], 256)  # the bytes of a text
            if space is not self._pool_space or not has_loose_mask(space):
                return spaces.Dict(parts)
            self._mask = mask_fits(space["action_mask"], self._pool.single_action_space)
            return apart_space(parts, self._mask)
        if isinstance(space, spaces.Dict):
            parts = [self._space(part) for part in space.spaces.values()]
            if not all(isinstance(part, spaces.Box) for part in parts):
                raise ForageError(
                    f"{self._target} of EnvPool has observations in {space}; a vector can be made of Boxes only, and "
                    f"flatten=False works."
                )
            low, high = (
                np.concatenate([np.asarray(getattr(part, side), np.float32).ravel() for part in parts])
                for side in ("low", "high")
            )
            return spaces.Box(low, high, dtype=np.float32)
        if self._images and space is self._pool_space:
            low, high = (np.moveaxis(bound, 0, -1) for bound in (space.low, space.high))
            stack = dict(self._pool.config).get("stack_num", 1)
            return StackedBox(low, high, np.uint8, stack if space.shape[0] % stack == 0 else 1)
        if not isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
            raise ForageError(
                f"{self._target} of EnvPool has observations in {space}; Box, Discrete and Dicts of them work."
            )
        return _as_float32(space)

    def _convert(self, observation: Any) -> PyTree[np.ndarray]:
        if isinstance(self._pool_space, spaces.Dict) and not self._flatten:
            nested = _nest(self._pool_space, observation)
            if self._mission and "mission" in nested:
                nested["mission"] = nested["mission"].astype(np.int32)
            return nested if self._mask is None else split_mask_part(nested, self._mask)
        if isinstance(self._pool_space, spaces.Dict):
            return np.concatenate(_columns(self._pool_space, observation), axis=1, dtype=np.float32)
        if self._images:
            return np.stack([observation[:, channel] for channel in range(observation.shape[1])], -1)
        return np.array(observation, array_dtype(self._pool_space))

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        if load_envpool().registration.registry.specs[self._target][0].startswith("envpool.mujoco"):
            # EnvPool ends the whole process where it finds no OpenGL.
            raise ForageError(
                f"{self.name} cannot be drawn; for a video use gymnasium:{self._target}, where it has it."
            )
        frame = self._pool.render(np.zeros(1, np.int32)) if self._started else None
        if frame is None:
            return super()._render()
        return np.asarray(frame[0], np.uint8)

    def close(self) -> None:
        self._pool.close()


FIXED = {"num_envs", "batch_size", "seed", "env_seed", "max_num_players", "gym_reset_return_info", "base_path"}
"""Options of EnvPool that the adapter decides."""


def load_envpool() -> Any:
    """Import EnvPool. Raise `ForageError` with the command that installs it if it is missing."""
    try:
        import envpool
    except ImportError as error:
        raise ForageError("EnvPool is not installed: pip install 'forage-rl[envpool]'.") from error
    return envpool


def ids() -> dict[str, str]:
    """Return every id of EnvPool with a line of description."""
    return {id: f"EnvPool's {id.rpartition('-')[0]}." for id in sorted(load_envpool().list_all_envs())}


def canonical(target: str) -> str:
    """Return EnvPool's spelling of an id. Raise `ForageError` with the nearest ids if it has no such environment."""
    known = load_envpool().list_all_envs()
    if target in known:
        return target
    lower = {id.lower(): id for id in known}
    if target.lower() in lower:
        return lower[target.lower()]
    near = [f"envpool:{lower[id]}" for id in difflib.get_close_matches(target.lower(), lower, n=3, cutoff=0.5)]
    hint = did_you_mean(near) or "; envpool.list_all_envs() lists what it has."
    raise ForageError(f"EnvPool has no environment {target!r}{hint}")


def in_order(numbers: np.ndarray) -> np.ndarray | slice:
    """Return an index that sorts rows by environment number: a slice without a copy if they are sorted already."""
    return slice(None) if (numbers[:-1] < numbers[1:]).all() else np.argsort(numbers)


def _rows(observation: PyTree[np.ndarray], order: np.ndarray | slice) -> PyTree[np.ndarray]:
    """Return these rows of each array. A plain array skips the walk over a tree, which takes longer."""
    return observation[order] if isinstance(observation, np.ndarray) else jax.tree.map(lambda x: x[order], observation)


def _columns(space: Any, observation: Any) -> list[np.ndarray]:
    if isinstance(space, spaces.Dict):
        return [leaf for key, part in space.spaces.items() for leaf in _columns(part, observation[key])]
    return [np.asarray(observation).reshape(len(observation), -1)]


def _nest(space: Any, observation: Any) -> PyTree[np.ndarray]:
    if isinstance(space, spaces.Dict):
        return {key: _nest(part, observation[key]) for key, part in space.spaces.items()}
    return np.array(observation, array_dtype(space))


def _as_float32(space: Any) -> Any:
    """Return the space with floats as float32. EnvPool writes "no bound" as the smallest and largest float64."""
    if not isinstance(space, spaces.Box):
        return space
    dtype = array_dtype(space)
    if dtype.kind != "f":
        return spaces.Box(space.low, space.high, dtype=dtype.type)
    limit, tiny = np.finfo(np.float32).max, np.finfo(np.float32).tiny
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    unbounded = high > limit
    # Its lowest is C++'s numeric_limits::min(), the smallest positive number, which is not what was meant.
    low = np.where((low < -limit) | (unbounded & (low > 0) & (low < tiny)), -np.inf, low)
    return spaces.Box(low.astype(np.float32), np.where(unbounded, np.inf, high).astype(np.float32), dtype=np.float32)
