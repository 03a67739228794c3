"""A person's own `gymnasium.vector.VectorEnv`: many environments that are stepped at once by code of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from jaxtyping import PyTree, UInt8

from forage.core.arrays import travelling
from forage.core.host import HostEnvironment, HostStep, Misfit
from forage.core.types import ForageError, Step
from forage.environments.adapters.gymnasium.actions import Door
from forage.environments.adapters.gymnasium.batch import Arrays, Layout, copied, nested, write_batch

MODES = "vector_kwargs={'autoreset_mode': 'SameStep'}"


class VectorEnvironment(HostEnvironment):
    """The environments of a VectorEnv, which begins a new episode in the step that ends one, or when it is told to.

    Its `metadata["autoreset_mode"]` says which. One that begins the new episode in the step after (`NextStep`) takes
    an action there that nobody hears, which would be learned from, and is refused.

    Observations are boxes, choices and dictionaries of them. Its state cannot be saved: `snapshot` is `None`.
    Environment `i` is seeded with entry `i` of `seeds(seed, num_envs)`.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any], name: str, num_envs: int):
        self._envs: Any = envs  # whose reset takes a list of seeds, though it says one number
        self._mode = mode_of(envs, name)
        if envs.num_envs != num_envs:
            raise ForageError(f"{name} made {envs.num_envs} environments where {num_envs} were asked for.")
        self._door = Door(name, envs.single_action_space, num_envs)
        super().__init__(name, travelling(envs.single_observation_space), self._door.space, num_envs, horizon(envs))
        self._layout = Layout(name, self.observation_space, num_envs)
        self._begun = False

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        self._begun = True
        return nested(self._read(self._envs.reset(seed=self.seeds(seed))[0]))

    def _send(self, action: PyTree[np.ndarray]) -> None:
        if not self._begun:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        seen, reward, terminated, truncated, info = self._envs.step(self._door.batch(action))
        terminated: Any = np.array(terminated, np.bool_)
        truncated = np.array(truncated, np.bool_) & ~terminated
        ended = terminated | truncated
        observation = following = self._read(seen)
        if ended.any() and self._mode == AutoresetMode.DISABLED:
            following = self._read(self._envs.reset(options={"reset_mask": ended})[0])
        elif ended.any():
            if "final_obs" not in info:
                raise Misfit("ended an episode without final_obs in its info", "it is what the last step led to")
            observation = copied(following)
            for index in np.flatnonzero(ended).tolist():
                self._layout.write(observation, index, entry(info["final_obs"], index), self._steps)
        rewards: Any = np.asarray(reward, np.float32)
        step = Step(nested(observation), rewards, terminated, truncated, {})
        return HostStep(step, step.observation if following is observation else nested(following))

    def _read(self, batch: Any) -> Arrays:
        """Copy what the VectorEnv showed: its arrays may be written to at the next step."""
        arrays = self._layout.empty()
        write_batch(arrays, batch)
        return arrays

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        frames = self._envs.render() if self._envs.render_mode == "rgb_array" else None
        return super()._render() if not frames else np.asarray(frames[0], np.uint8)

    @property
    def frames_per_second(self) -> float | None:
        return self._envs.metadata.get("render_fps")

    def close(self) -> None:
        self._envs.close()


def entry(final: Any, index: int) -> Any:
    """Return one environment's observation out of `final_obs`, which has dictionaries outside."""
    if isinstance(final, dict):
        return {key: entry(part, index) for key, part in final.items() if not key.startswith("_")}
    return final[index]


def mode_of(envs: VectorEnv[Any, Any, Any], name: str) -> AutoresetMode:
    """Return when new episodes begin. Raise `ForageError` where that is a step too late, or not said."""
    said = (getattr(envs, "metadata", None) or {}).get("autoreset_mode")
    mode = AutoresetMode(said) if isinstance(said, str) else said
    if mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
        return mode
    how = "begins a new episode in the step after one ended" if mode else "does not say when new episodes begin"
    raise ForageError(
        f"{name} makes a {type(envs).__name__} that {how} (metadata['autoreset_mode']); SameStep and Disabled work, as "
        f"in gymnasium.make_vec(id, number, vectorization_mode='sync', {MODES})."
    )


def horizon(envs: VectorEnv[Any, Any, Any]) -> int | None:
    """Return the steps after which an episode is cut; `None` where nothing is said."""
    spec = getattr(envs, "spec", None)
    return getattr(spec, "max_episode_steps", None)
