"""Gymnasium environments on the host: `gymnasium:HalfCheetah-v5`, `gymnasium:ALE/Pong-v5`, or a class of yours."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Int, PyTree, UInt8

from forage.core.arrays import Spaces, check_alike, travelling
from forage.core.host import LIFE_LOST, HostEnvironment, HostStep
from forage.core.storage import packing
from forage.core.types import ForageError, Step
from forage.environments.adapters.gymnasium import saving
from forage.environments.adapters.gymnasium.actions import Door
from forage.environments.adapters.gymnasium.atari import is_atari
from forage.environments.adapters.gymnasium.batch import Arrays, Layout, copy_arrays, nest
from forage.environments.adapters.gymnasium.calls import Workers, info_number, reset_environment, step_environment
from forage.environments.adapters.gymnasium.goals import find_goal_reward
from forage.environments.adapters.gymnasium.make import (
    Target,
    failure,
    frames_per_second,
    horizon,
    locate,
    make_single,
    map_layer,
    options_of,
    reward_names,
)
from forage.environments.adapters.gymnasium.parts import name_list
from forage.environments.adapters.gymnasium.spaces import is_masked
from forage.environments.adapters.gymnasium.wrapping import Around
from forage.environments.adapters.jax.common import picture


class GymnasiumEnvironment(HostEnvironment):
    """`num_envs` Gymnasium environments, stepped one after another, or each in a process of its own.

    `target` is an id for `gymnasium.make`, `module:Class` of a `gymnasium.Env`, or a function that makes one.
    `options` go to its constructor, and `own` too, whatever they are called (Atari games also take those of
    `AtariPreprocessing`); `max_episode_steps` limits the episode.

    - Observations: floats become `float32`, long integers `int32`. A nested space stays nested, a Tuple as a Dict with
      the keys "0", "1", ..., a Text as character ids; `flatten=True` makes one vector of it instead (see
      `spaces`), and `without` names parts of a Dict that are left out. An `action_mask` in the info of the
      first reset, or a method `action_masks`, makes a Dict `{"observation", "action_mask"}`, with `action_mask` an
      `int8` array that is 1 where an action is allowed.
    - Actions count from 0 and are passed on as the space wants them, many choices as one flat MultiDiscrete (see
      `actions`), clipped to its own bounds in its own dtype.
    - A vector reward, which `env.reward_space` announces, is named by `env.reward_names` where it has them.
    - Where an environment says both terminated and truncated, terminated wins.
    - `info` names entries of the environment's info that `Step.info` shall hold, `float32[env]`, NaN where missing.
      Like `without`, it is a list or one text with commas. A game of Atari's always has `life_lost` there.
    - `around` are wrappers by name (see `wrapping`), around all but `flatten`.
    - `parallel=True` uses Gymnasium's AsyncVectorEnv: worth it when one step takes longer than about a millisecond.
      Otherwise this steps in a plain loop, because SyncVectorEnv takes about as long again as a step of HalfCheetah.
    - `snapshots=False` does not try whether the environment can be saved exactly (which starts two more of it).
      That is the default for a class of yours, because it may be connected to something real.

    Environment `i` is seeded with entry `i` of `seeds(seed, num_envs)`.
    """

    def __init__(
        self,
        target: Target,
        num_envs: int,
        name: str | None = None,
        parallel: bool = False,
        info: str | Sequence[str] = (),
        snapshots: bool | None = None,
        flatten: bool = False,
        without: str | Sequence[str] = (),
        max_episode_steps: int | None = None,
        around: Around = (),
        own: Mapping[str, Any] | None = None,
        **options: Any,
    ):
        name = name or (target if isinstance(target, str) else getattr(target, "__name__", "environment"))
        own = {**options, **(own or {})}
        shape: dict[str, Any] = {
            "flatten": flatten,
            "without": name_list(without),
            "max_episode_steps": max_episode_steps,
        }
        shape["around"] = around
        make = functools.partial(self._single, target, own, **shape)
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._vector: Workers | None = None
        try:
            first = make(render=True)
            self._envs.append(first)
            self._door = Door(name, first.action_space, num_envs)
            super().__init__(
                name,
                travelling(first.observation_space),
                self._door.space,
                num_envs,
                horizon(first),
                self._reward_names(first),
            )
            told = (LIFE_LOST,) if isinstance(target, str) and is_atari(target) else ()
            self._spaces = spaces_of(first)
            self._goal_reward = None if around else find_goal_reward(first, name, make, own | shape)
            self._make, self._info_names = make, tuple(dict.fromkeys((*name_list(info), *told)))
            self._info_seen: set[str] = set()
            self._frames_per_second = frames_per_second(first)
            trusted = isinstance(locate(target), str)
            self._try_snapshots = (trusted if snapshots is None else snapshots) and not parallel
            self._may_save = not trusted and snapshots is None and not parallel
            self._exact: bool | None = None
            self._observation: Arrays | None = None
            self._layout = Layout(name, self.observation_space, num_envs)
            self._rewards = (num_envs, len(self.reward_names)) if self.reward_names else (num_envs,)
            if parallel:
                self._envs.remove(first)
                first.close()
                makers = [functools.partial(make, render=index == 0) for index in range(num_envs)]
                self._vector = Workers(
                    makers, self.reward_names, (first.observation_space, first.action_space), self._layout
                )
            while not parallel and len(self._envs) < num_envs:
                self._envs.append(make())
                check_alike(name, spaces_of(first), spaces_of(self._envs[-1]), f"copy {len(self._envs)}")
        except Exception as error:
            copies = len(self._envs)
            self.close()
            if isinstance(error, ForageError):
                raise
            raise failure(name, target, error, own, copies) from error
        self._masked = is_masked(self.observation_space)
        self._acted = [env.action_space for env in self._envs]
        self._place = np.zeros(num_envs, np.int32)
        self._maps = [layer for env in self._envs if (layer := map_layer(env)) is not None]

    @classmethod
    def options_of(cls, target: Target) -> set[str]:
        """Return the options that the environment's own constructor names."""
        return options_of(target)

    def one(self) -> gymnasium.Env[Any, Any]:
        """Make one more such environment outside the batch, with pictures if it supports them."""
        return self._make(render=True)

    @staticmethod
    def _single(target: Target, own: Mapping[str, Any], **how: Any) -> gymnasium.Env[Any, Any]:
        """Make one environment. Pickled to other processes."""
        return make_single(target, own=own, **how)

    @staticmethod
    def _reward_names(env: Any) -> tuple[str, ...]:
        return reward_names(env)

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        chosen = self.seeds(seed)
        observation = self._layout.empty()
        if self._vector is not None:
            vector = self._vector
            batch, info = self._hear(lambda: vector.reset(seed=list(chosen)))
            self._no_mask(info)
            observation = self._layout.read_batch(batch, 0)
        else:
            for index, number in enumerate(chosen):
                self._at = index
                seen, info = self._reset_one(index, number)
                self._no_mask(info)
                self._layout.write(observation, index, seen, 0)
        self._observation = observation
        return nest(observation)

    def _reset_one(self, index: int, number: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset one environment. Raise `ForageError` if its spaces are others from now on."""
        env = self._envs[index]
        begun = reset_environment(env, number)
        if env.action_space is not self._acted[index]:
            check_alike(self.name, self._spaces, spaces_of(env), f"environment {index} after a reset")
            self._acted[index] = env.action_space
        return begun

    def _send(self, action: PyTree[np.ndarray]) -> None:
        if self._observation is None:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")
        if (vector := self._vector) is not None:
            actions = self._door.to_lists(action)
            self._hear(lambda: vector.step_async(actions))

    def _hear(self, call: Callable[[], Any]) -> Any:
        """Return the reply of the processes; if one fails, record it as the environment at fault."""
        assert self._vector is not None
        try:
            return self._vector.receive(call)
        except Exception:
            self._at = self._vector.at
            raise

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        return self._receive_parallel() if self._vector is not None else self._receive_serial(action)

    def _receive_serial(self, action: PyTree[np.ndarray]) -> HostStep:
        observation = self._layout.empty()
        reward = np.empty(self._rewards, np.float32)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        kept, ended, places = self._blank(), [], []
        for index, (env, chosen) in enumerate(zip(self._envs, self._door.singles(action), strict=True)):
            self._at = index
            seen, earned, over, clock, info = step_environment(env, chosen, self.reward_names)
            self._no_mask(info)
            if self._maps:
                places.append(self._maps[index].map_position)
            reward[index] = earned
            self._layout.write(observation, index, seen, self._steps)
            if kept:
                self._note(kept, index, info, over or clock)  # now: a reset may write to it
            if over or clock:
                terminated[index], truncated[index] = over, not over
                ended.append(index)
        following = observation
        if ended:
            following = copy_arrays(observation)
            for index in ended:
                self._at = index
                self._layout.write(following, index, self._reset_one(index)[0], self._steps)
        self._place = np.array(places or [0] * self.num_envs, np.int32)
        return self._result(observation, following, reward, terminated, truncated, kept)

    def _receive_parallel(self) -> HostStep:
        assert self._vector is not None
        batch, reward, terminated, truncated, info = self._hear(self._vector.step_wait)
        self._no_mask(info)
        observation = following = self._layout.read_batch(batch, self._steps)
        ended = np.flatnonzero(terminated | truncated).tolist()
        if ended:
            observation = copy_arrays(following)
            for index in ended:
                self._layout.write(observation, index, info["final_obs"][index], self._steps)
        # What was reported with a step that ended its episode is kept apart from the info of the reset after it.
        kept = self._blank()
        for index in range(self.num_envs) if kept else ():
            self._at = index
            self._note(kept, index, _environment_info(info, index, index in ended), index in ended)
        return self._result(
            observation,
            following,
            np.array(reward, np.float32),
            np.array(terminated, np.bool_),
            truncated & ~terminated,
            kept,
        )

    def _no_mask(self, info: dict[str, Any]) -> None:
        """Raise `ForageError` for a mask in the info that agents would not see."""
        if "action_mask" in info and not self._masked:
            raise ForageError(
                f"{self.name} gives an action_mask in its info that cannot be obeyed; its actions, in "
                f"{self._door.inner}, should be choices, and the mask in the info of each reset too, the first as well."
            )

    def _result(self, observation: Any, following: Any, reward: Any, terminated: Any, truncated: Any, info: Any):
        self._observation = following
        seen = nest(observation)
        after = seen if following is observation else nest(following)
        return HostStep(Step(seen, reward, terminated, truncated, info), after)

    def _blank(self) -> dict[str, Any]:
        """Return the numbers of the infos before anything is known."""
        return {name: np.full(self.num_envs, np.nan, np.float32) for name in self._info_names}

    def _note(self, kept: dict[str, Any], index: int, info: Mapping[str, Any], ended: bool) -> None:
        """Keep the numbers of one environment's info."""
        for name, array in kept.items():
            array[index] = info_number(name, info.get(name))
        if ended:
            self._info_seen.update(info)

    @property
    def info_names(self) -> tuple[str, ...]:
        return self._info_names

    @property
    def goal_reward(self) -> Any:
        return self._goal_reward

    @property
    def info_seen(self) -> tuple[str, ...]:
        return tuple(sorted(self._info_seen))

    @property
    def frames_per_second(self) -> float | None:
        return self._frames_per_second

    @property
    def map_shape(self) -> tuple[int, ...] | None:
        return self._maps[0].map_shape if self._maps else None

    @property
    def map_position(self) -> Int[np.ndarray, " env"]:
        return self._place

    @property
    def returns(self) -> bool:
        if self._exact is None:
            self._exact = self._try_snapshots and saving.restores_exactly(self._make)
        return self._exact

    @property
    def may_save(self) -> bool:
        return self._may_save

    def _take(self, index: int) -> bytes | None:
        if not self.returns:
            return super()._take(index)
        seen = {path: array[index] for path, array in (self._observation or {}).items()}
        return saving.pack((seen, saving.save_state(self._envs[index])), self._envs[index])

    def _put(self, index: int, state: bytes | None) -> PyTree[np.ndarray]:
        if self._vector is not None:
            return super()._put(index, state)
        self._at = index
        following = copy_arrays(self._observation or {})
        if state is None:
            self._layout.write(following, index, self._reset_one(index)[0], self._steps)
        else:
            seen, saved = saving.read_snapshot(state, self._envs[index])
            saving.restore_state(self._envs[index], saved, chance=False)
            for path, array in seen.items():
                following[path][index] = array
        self._observation = following
        return nest({path: array[index] for path, array in following.items()})

    def _snapshot(self) -> bytes | None:
        if not self.returns:
            return None
        if self._observation is None:
            raise ForageError(f"{self.name} has no state to save before its first reset; call reset(seed) first.")
        state = (self.name, self._observation, [saving.save_state(env) for env in self._envs])
        return zlib.compress(saving.pack(state, self._envs[0]), 1)

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        if self._vector is not None:
            return super()._restore(snapshot)
        name, observation, saved = saving.read_snapshot(packing.inflate(snapshot), self._envs[0])
        if name != self.name or len(saved) != self.num_envs:
            raise ForageError(
                f"The snapshot is of {len(saved)} environments of {name}; "
                f"{self.num_envs} of {self.name} cannot continue from it."
            )
        for index, (env, state) in enumerate(zip(self._envs, saved, strict=True)):
            self._at = index
            env.reset(seed=0)  # some simulators allocate on their first reset
            saving.restore_state(env, state)
        self._observation = observation
        return nest(observation)

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        try:
            if (vector := self._vector) is not None:
                frame = self._hear(lambda: vector.call("render"))[0]
            else:
                frame = self._envs[0].render()
        except NotImplementedError:
            return super()._render()
        return picture(self.name, frame) if isinstance(frame, np.ndarray) else super()._render()

    def close(self) -> None:
        while self._envs:
            self._envs.pop().close()
        if self._vector is not None:
            self._vector.shut()
            self._vector = None


def _environment_info(info: dict[str, Any], index: int, ended: bool) -> dict[str, Any]:
    """Return one environment's own info from the merged info of the vector environment."""
    if ended:
        info = info.get("final_info", {})
    return {
        key: value[index]
        for key, value in info.items()
        if not key.startswith("_") and not isinstance(value, dict) and f"_{key}" in info and info[f"_{key}"][index]
    }


def spaces_of(env: gymnasium.Env[Any, Any]) -> Spaces:
    """Return an environment's spaces of observations and of actions."""
    return env.observation_space, env.action_space
