"""Many copies of a native environment as a `gymnasium.vector.VectorEnv`: one jitted step for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, Key, PyTree, UInt8

from forage.core.ports import Environment
from forage.core.types import ForageError, Step
from forage.environments.export.common import (
    Motion,
    check_render_mode,
    convert_action,
    draw_state,
    key_of,
    render_modes,
    reward_space,
    to_space_dtype,
)
from forage.environments.export.single import check_alone


class GymnasiumVectorExport(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """The same as a `SyncVectorEnv` of as many `GymnasiumExport`s, computed in one step.

    Where an episode ends, by `autoreset_mode`:

    - `NEXT_STEP`: the step after it ignores the action and returns the new episode's first observation, reward 0.
    - `SAME_STEP`: the same step returns it; what the step led to is in `info["final_obs"]`, its info in `final_info`.
    - `DISABLED`: nothing happens; `reset(options={"reset_mask": mask})` begins episodes where `mask` says so.

    Environment `i` is seeded with `seed + i`. A vector reward is `[env, reward]`, named by `reward_names`.
    """

    def __init__(
        self,
        environment: Environment,
        num_envs: int,
        name: str = "",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ):
        self.name = name or type(environment).__name__
        check_alone(self.name, environment)
        if num_envs < 1:
            raise ForageError(f"{self.name} cannot run with num_envs={num_envs}; 1 or more works.")
        check_render_mode(self.name, environment, render_mode)
        self.autoreset_mode = _mode(self.name, autoreset_mode)
        self.environment, self.num_envs, self.render_mode = environment, num_envs, render_mode
        self.metadata = {
            "render_modes": render_modes(environment),
            "render_fps": environment.frames_per_second or 30,
            "autoreset_mode": self.autoreset_mode,
        }
        self.single_observation_space = environment.observation_space
        self.single_action_space = environment.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.reward_names = environment.reward_names
        if self.reward_names:
            self.reward_space = reward_space(environment)
        self._keys: Key[Array, " env"] | None = None
        self._states: Any = None
        self._observation: PyTree[np.ndarray] = None
        self._ended = np.ones(num_envs, np.bool_)
        motion = Motion(environment)
        begin, move = jax.vmap(motion.begin), jax.vmap(motion.move)

        def restart(keys: Any, states: Any, observation: Any, mask: Any) -> Any:
            return select_leaves(mask, begin(keys), (keys, states, observation))

        def next_step(keys: Any, states: Any, ended: Any, action: Any) -> tuple[Any, Any, Step, Any]:
            _, fresh, first = begin(keys)
            keys, states, step = move(keys, states, action)
            step = step._replace(
                observation=select_leaves(ended, first, step.observation),
                reward=select_leaves(ended, jnp.zeros_like(step.reward), step.reward),
                terminated=step.terminated & ~ended,
                truncated=step.truncated & ~ended,
            )
            return keys, select_leaves(ended, fresh, states), step, step.observation

        def same_step(keys: Any, states: Any, ended: Any, action: Any) -> tuple[Any, Any, Step, Any]:
            keys, states, step = move(keys, states, action)
            over = step.terminated | step.truncated
            keys, states, observation = select_leaves(over, begin(keys), (keys, states, step.observation))
            return keys, states, step, observation

        def step_without_reset(keys: Any, states: Any, ended: Any, action: Any) -> tuple[Any, Any, Step, Any]:
            keys, states, step = move(keys, states, action)
            return keys, states, step, step.observation

        steps = {
            AutoresetMode.NEXT_STEP: next_step,
            AutoresetMode.SAME_STEP: same_step,
            AutoresetMode.DISABLED: step_without_reset,
        }
        self._begin, self._restart, self._step = jax.jit(begin), jax.jit(restart), jax.jit(steps[self.autoreset_mode])

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[PyTree[np.ndarray], dict[str, Any]]:
        """Begin an episode in every environment, or in those selected by `options["reset_mask"]` (`bool[env]`)."""
        if isinstance(seed, int | np.integer):
            chosen: list[int | None] = [int(seed) + index for index in range(self.num_envs)]
        else:
            chosen = [None] * self.num_envs if seed is None else list(seed)
        if len(chosen) != self.num_envs:
            raise ForageError(f"{self.name} has {self.num_envs} environments and was reset with {len(chosen)} seeds.")
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
        mask = self._mask((options or {}).get("reset_mask"))
        self._seed(chosen, mask)
        if mask.all():
            self._keys, self._states, observation = self._begin(self._keys)
        else:
            self._keys, self._states, observation = self._restart(self._keys, self._states, self._observation, mask)
        self._observation, self._ended = observation, self._ended & ~mask
        return to_space_dtype(self.single_observation_space, observation), {}

    def _mask(self, mask: Any) -> Bool[np.ndarray, " env"]:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise ForageError(f"{self.name}'s reset_mask is bool[{self.num_envs}] in NumPy, not {mask!r}.")
        if self._states is None and not mask.all():
            raise ForageError(f"{self.name} resets all of its environments at first, not only some of them.")
        return mask

    def _seed(self, chosen: Sequence[int | None], mask: Bool[np.ndarray, " env"]) -> None:
        if self._keys is None:
            chosen = [int(self.np_random.integers(2**31)) if one is None else one for one in chosen]
        keys = [
            key_of(one) if one is not None and reset else self._keys[index]  # pyrefly: ignore[unsupported-operation]
            for index, (one, reset) in enumerate(zip(chosen, mask, strict=True))
        ]
        self._keys = jnp.stack(keys)

    def step(
        self, actions: Any
    ) -> tuple[PyTree[np.ndarray], np.ndarray, Bool[np.ndarray, " env"], Bool[np.ndarray, " env"], dict[str, Any]]:
        """Take one action in each environment. Raise `ForageError` for invalid actions, and before the first reset."""
        if self._states is None:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset() first.")
        if self.autoreset_mode == AutoresetMode.DISABLED and self._ended.any():
            raise ForageError(
                f"{self.name}'s episode in environment {np.flatnonzero(self._ended)[0]} has ended and autoreset is "
                f"disabled; call reset(options={{'reset_mask': ...}}) first."
            )
        action = convert_action(self.name, self.single_action_space, actions, (self.num_envs,))
        began = self._ended if self.autoreset_mode == AutoresetMode.NEXT_STEP else np.zeros_like(self._ended)
        self._keys, self._states, step, self._observation = self._step(self._keys, self._states, self._ended, action)
        terminated, truncated = np.array(step.terminated), np.array(step.truncated)
        over = terminated | truncated
        final = over if self.autoreset_mode == AutoresetMode.SAME_STEP else np.zeros_like(over)
        info = self._info(step.info, ~began & ~final)
        if final.any():
            last = to_space_dtype(self.single_observation_space, step.observation)
            info["final_obs"], info["_final_obs"] = np.full(self.num_envs, None, object), final
            for index in np.flatnonzero(final):
                info["final_obs"][index] = jax.tree.map(lambda x, index=index: x[index], last)
            info["final_info"], info["_final_info"] = self._info(step.info, final), final
        self._ended = over if self.autoreset_mode != AutoresetMode.SAME_STEP else np.zeros_like(over)
        return (
            to_space_dtype(self.single_observation_space, self._observation),
            np.asarray(step.reward, np.float64),
            terminated,
            truncated,
            info,
        )

    def _info(self, info: dict[str, Array], whose: Bool[np.ndarray, " env"]) -> dict[str, Any]:
        """Return infos in Gymnasium's form: each entry, with a mask of environments that have it, zero elsewhere."""
        found: dict[str, Any] = {}
        for name, values in info.items() if whose.any() else ():
            array = np.array(values)
            array[~whose] = 0
            found[name], found[f"_{name}"] = array, whose.copy()
        return found

    def render(self) -> tuple[UInt8[np.ndarray, "height width 3"], ...] | None:
        """Draw every environment if `render_mode` is set."""
        if self.render_mode is None:
            return None
        if self._states is None:
            raise ForageError(f"{self.name} has nothing to draw before its first reset; call reset() first.")
        states = [jax.tree.map(lambda x, index=index: x[index], self._states) for index in range(self.num_envs)]
        return tuple(draw_state(self.environment, state) for state in states)


def select_leaves(mask: Bool[Array, " env"], yes: PyTree[Array], no: PyTree[Array]) -> PyTree[Array]:
    """`where`, leaf by leaf, over the leading axis."""
    return jax.tree.map(lambda a, b: jnp.where(mask.reshape(-1, *(1,) * (jnp.ndim(b) - 1)), a, b), yes, no)


def _mode(name: str, given: str | AutoresetMode) -> AutoresetMode:
    for mode in AutoresetMode:
        if given in (mode, mode.value, mode.name, mode.name.lower()):
            return mode
    known = ", ".join(mode.name.lower() for mode in AutoresetMode)
    raise ForageError(f"{name} cannot start episodes by autoreset_mode={given!r}; {known} work.")
