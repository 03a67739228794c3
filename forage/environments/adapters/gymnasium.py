"""Gymnasium environments on the host road: `gymnasium:HalfCheetah-v5`, `gymnasium:ALE/Pong-v5`, or a class of yours."""

from __future__ import annotations

import functools
import pickle
import zlib
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Int, PyTree, UInt8

from forage.environments.adapters import saving
from forage.environments.adapters.gymnasium_actions import Door
from forage.environments.adapters.gymnasium_batch import Arrays, Layout, copied, nested, write_batch
from forage.environments.adapters.gymnasium_make import failure, horizon, is_class, make_single, mapped, reward_names
from forage.environments.adapters.gymnasium_spaces import travelling
from forage.environments.host import HostEnvironment, HostStep, seeds
from forage.types import ForageError, Step


class GymnasiumEnvironment(HostEnvironment):
    """`num_envs` Gymnasium environments, stepped one after another, or each in a process of its own.

    `target` is an id for `gymnasium.make` or `module:Class` of a `gymnasium.Env`; `options` go to its constructor
    (`max_episode_steps` limits the episode; Atari games also take those of `AtariPreprocessing`).

    - Observations: floats become `float32`, long integers `int32`. A nested space stays nested, a Tuple as a Dict with
      the keys "0", "1", ..., a Text as character ids; `flatten=True` makes one vector of it instead (see
      `gymnasium_spaces`). An `action_mask` in the info of the first reset makes a Dict `{"observation",
      "action_mask"}`, with `action_mask` an `int8` array that is 1 where an action is allowed.
    - Actions count from 0 and are passed on as the space wants them, many choices as one flat MultiDiscrete (see
      `gymnasium_actions`); they are not clipped.
    - A vector reward, which `env.reward_space` announces, is named by `env.reward_names` where it has them.
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
        make = functools.partial(self._single, target, **options)
        try:
            first = make(render=True)
        except ForageError:
            raise
        except Exception as error:
            raise failure(name, target, error) from error
        self._door = Door(name, first.action_space, num_envs)
        super().__init__(
            name,
            travelling(first.observation_space),
            self._door.space,
            num_envs,
            horizon(first),
            self._reward_names(first),
        )
        self._make, self._info_names = make, tuple(info)
        self._try_snapshots = (not is_class(target) if snapshots is None else snapshots) and not parallel
        self._exact: bool | None = None
        self._observation: Arrays | None = None
        self._layout = Layout(name, self.observation_space, num_envs)
        self._rewards = (num_envs, len(self.reward_names)) if self.reward_names else (num_envs,)
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
        self._place = np.zeros(num_envs, np.int32)
        self._maps = [layer for env in self._envs if (layer := mapped(env)) is not None]

    @staticmethod
    def _single(target: str, **options: Any) -> gymnasium.Env[Any, Any]:
        """Makes one environment. Pickled to other processes."""
        return make_single(target, **options)

    @staticmethod
    def _reward_names(env: Any) -> tuple[str, ...]:
        return reward_names(env)

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        chosen = seeds(seed, self.num_envs)
        observation = self._layout.empty()
        if self._vector is not None:
            batch, _ = self._vector.reset(seed=list(chosen))
            write_batch(observation, batch)
        else:
            for index, (env, number) in enumerate(zip(self._envs, chosen, strict=True)):
                self._at = index
                self._layout.write(observation, index, env.reset(seed=number)[0], 0)
        self._observation = observation
        return nested(observation)

    def _send(self, action: PyTree[np.ndarray]) -> None:
        if self._observation is None:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")
        if self._vector is not None:
            self._vector.step_async(self._door.batch(action))

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        return self._receive_parallel() if self._vector is not None else self._receive_serial(action)

    def _receive_serial(self, action: PyTree[np.ndarray]) -> HostStep:
        observation = self._layout.empty()
        reward = np.empty(self._rewards, np.float32)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        infos, ended, places = [], [], []
        for index, (env, chosen) in enumerate(zip(self._envs, self._door.singles(action), strict=True)):
            self._at = index
            earned: Any
            seen, earned, over, clock, info = env.step(chosen)
            if self._maps:
                places.append(self._maps[index].place)
            if self.reward_names and np.shape(earned) != self._rewards[1:]:  # pyrefly: ignore[no-matching-overload]
                raise ForageError(
                    f"{self.name} returned as reward {earned!r} at step {self._steps} in environment {index}; "
                    f"it should be {len(self.reward_names)} numbers: {', '.join(self.reward_names)}."
                )
            reward[index] = earned
            self._layout.write(observation, index, seen, self._steps)
            if self._info_names:
                infos.append(info)
            if over or clock:
                terminated[index], truncated[index] = over, not over
                ended.append(index)
        following = observation
        if ended:
            following = copied(observation)
            for index in ended:
                self._at = index
                self._layout.write(following, index, self._envs[index].reset()[0], self._steps)
        self._place = np.array(places or [0] * self.num_envs, np.int32)
        return self._result(observation, following, reward, terminated, truncated, self._gather(infos))

    def _receive_parallel(self) -> HostStep:
        assert self._vector is not None
        batch, reward, terminated, truncated, info = self._vector.step_wait()
        following = self._layout.empty()
        write_batch(following, batch)
        observation = following
        ended = np.flatnonzero(terminated | truncated).tolist()
        if ended:
            observation = copied(following)
            for index in ended:
                self._layout.write(observation, index, info["final_obs"][index], self._steps)
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
        seen = nested(observation)
        after = seen if following is observation else nested(following)
        return HostStep(Step(seen, reward, terminated, truncated, info), after)

    def _gather(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {
            name: np.array([float(info.get(name, np.nan)) for info in infos], np.float32) for name in self._info_names
        }

    @property
    def places(self) -> tuple[int, ...] | None:
        return self._maps[0].places if self._maps else None

    @property
    def place(self) -> Int[np.ndarray, " env"]:
        return self._place

    @property
    def returns(self) -> bool:
        if self._exact is None:
            self._exact = self._try_snapshots and saving.exact(self._make)
        return self._exact

    def _take(self, index: int) -> bytes:
        if not self.returns:
            return super()._take(index)
        seen = {path: array[index] for path, array in (self._observation or {}).items()}
        return pickle.dumps((seen, saving.save(self._envs[index])))

    def _put(self, index: int, state: bytes | None) -> PyTree[np.ndarray]:
        if self._vector is not None:
            return super()._put(index, state)
        self._at = index
        following = copied(self._observation or {})
        if state is None:
            self._layout.write(following, index, self._envs[index].reset()[0], self._steps)
        else:
            seen, saved = saving.read(state, self._envs[index])
            saving.load(self._envs[index], saved, chance=False)
            for path, array in seen.items():
                following[path][index] = array
        self._observation = following
        return nested({path: array[index] for path, array in following.items()})

    def _snapshot(self) -> bytes | None:
        if not self.returns:
            return None
        if self._observation is None:
            raise ForageError(f"{self.name} has no state to save before its first reset; call reset(seed) first.")
        state = (self.name, self._observation, [saving.save(env) for env in self._envs])
        return zlib.compress(pickle.dumps(state), 1)

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        if self._vector is not None:
            return super()._restore(snapshot)
        name, observation, saved = saving.read(zlib.decompress(snapshot), self._envs[0])
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
        return nested(observation)

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


def _environment_info(info: dict[str, Any], index: int, ended: bool) -> dict[str, Any]:
    """One environment's own info out of what the vector environment merged."""
    if ended:
        info = info.get("final_info", {})
    return {
        key: value[index]
        for key, value in info.items()
        if not key.startswith("_") and not isinstance(value, dict) and f"_{key}" in info and info[f"_{key}"][index]
    }
