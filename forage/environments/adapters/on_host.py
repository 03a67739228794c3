"""A native environment on the host."""

from __future__ import annotations

import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree, UInt8

from forage.core import prng
from forage.core.host import HostEnvironment, HostStep, array_dtype
from forage.core.ports import Environment
from forage.core.team import as_one
from forage.core.types import ForageError


class OnHost(HostEnvironment):
    """A `HostEnvironment` of `num_envs` copies of a native environment, on the CPU.

    One jitted function steps all copies and resets those whose episode ended. The run is a function of the seed, and a
    snapshot is the arrays themselves: environment states, observations and the random key.
    """

    def __init__(self, environment: Environment, num_envs: int, name: str | None = None):
        super().__init__(
            name or type(environment).__name__,
            environment.observation_space,
            environment.action_space,
            num_envs,
            environment.horizon,
            environment.reward_names,
            environment.num_agents,
        )
        self.environment = environment
        self._cpu = jax.local_devices(backend="cpu")[0]
        self._carry: Any = None  # (states, observations, key)
        self._pending: Any = None
        self._place: Any = None  # where the last step led to

        def reset(key: Array) -> tuple[Any, PyTree[Array], Array]:
            key, start = jax.random.split(key)
            states, observations = jax.vmap(environment.reset)(jax.random.split(start, num_envs))
            return states, observations, key

        def step(carry: Any, action: PyTree[Array]) -> tuple[Any, Any]:
            states, _, key = carry
            key, move, start = jax.random.split(key, 3)
            states, result = jax.vmap(environment.step)(states, action, jax.random.split(move, num_envs))
            fresh, first = jax.vmap(environment.reset)(jax.random.split(start, num_envs))
            told = as_one(result, environment.num_agents)
            ended = told.terminated | told.truncated
            place = jax.vmap(environment.map_position)(states) if environment.map_shape else None

            def choose(new: Array, old: Array) -> Array:
                return jnp.where(ended.reshape(-1, *(1,) * (jnp.ndim(old) - 1)), new, old)

            states = jax.tree.map(choose, fresh, states)
            observations = jax.tree.map(choose, first, result.observation)
            named = {name: jnp.asarray(result.info[name], jnp.float32) for name in environment.info_names}
            result = result._replace(reward=result.reward.astype(jnp.float32), info=result.info | named)
            return (states, observations, key), (result, place)

        self._jit_reset, self._jit_step = jax.jit(reset), jax.jit(step)
        self._jit_start = jax.jit(lambda key: environment.reset(key))

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        # A committed key keeps everything that follows from it on the CPU.
        self._carry = self._jit_reset(jax.device_put(prng.key(seed), self._cpu))
        return jax.tree.map(np.asarray, self._carry[1])

    def _send(self, action: PyTree[np.ndarray]) -> None:
        if self._carry is None:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")
        dtype = None if self.action_space.dtype is None else array_dtype(self.action_space)
        action = jax.tree.map(lambda leaf: np.asarray(leaf, dtype), action)
        self._carry, self._pending = self._jit_step(self._carry, jax.device_put(action, self._cpu))

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        (step, self._place), self._pending = jax.tree.map(np.asarray, self._pending), None
        ended = bool((step.terminated | step.truncated).any())
        return HostStep(step, jax.tree.map(np.asarray, self._carry[1]) if ended else step.observation)

    @property
    def map_shape(self) -> tuple[int, ...] | None:
        return self.environment.map_shape

    @property
    def map_position(self) -> Int[np.ndarray, " env"]:
        return super().map_position if self._place is None else self._place

    @property
    def info_names(self) -> tuple[str, ...]:
        return self.environment.info_names

    @property
    def info_seen(self) -> tuple[str, ...]:
        return self.info_names

    @property
    def returns(self) -> bool:
        return True

    def _take(self, index: int) -> bytes:
        return _pack(jax.tree.map(lambda leaf: leaf[index], self._first_carry[:2]))

    def _put(self, index: int, state: bytes | None) -> PyTree[np.ndarray]:
        states, observations, key = self._first_carry
        if state is None:
            key, start = jax.random.split(key)
            place = self._jit_start(start)
        else:
            place = self._unpack(state, jax.tree.map(lambda leaf: leaf[index], (states, observations)))
        batch = jax.tree.map(lambda leaf, one: leaf.at[index].set(one), (states, observations), place)
        self._carry = (*batch, key)
        return jax.tree.map(np.asarray, place[1])

    @property
    def _first_carry(self) -> Any:
        if self._carry is None:
            raise ForageError(f"{self.name} has no state to save before its first reset; call reset(seed) first.")
        return self._carry

    def _snapshot(self) -> bytes:
        return _pack(self._first_carry)

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        if self._carry is None:
            self._reset(0)  # for the shapes
        self._carry = self._unpack(snapshot, self._carry)
        return jax.tree.map(np.asarray, self._carry[1])

    def _unpack(self, packed: bytes, like: Any) -> Any:
        leaves, structure = jax.tree.flatten(like)
        with np.load(io.BytesIO(packed), allow_pickle=False) as saved:
            arrays = [saved[f"arr_{index}"] for index in range(len(saved.files))]
        restored = [
            prng.from_data(array) if _is_key(leaf) else array for leaf, array in zip(leaves, arrays, strict=False)
        ]
        if len(arrays) != len(leaves) or any(
            new.shape != old.shape or new.dtype != old.dtype for new, old in zip(restored, leaves, strict=True)
        ):
            raise ForageError(
                f"The snapshot is not of {self.num_envs} copies of {self.name}; restore it with the environment, "
                f"options and num_envs it was taken with."
            )
        return jax.device_put(jax.tree.unflatten(structure, restored), self._cpu)

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        if self._carry is None:
            raise ForageError(f"{self.name} has nothing to draw before its first reset; call reset(seed) first.")
        return np.asarray(self.environment.render(jax.tree.map(lambda leaf: leaf[0], self._carry[0])))


def _pack(tree: Any) -> bytes:
    leaves = [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in jax.tree.leaves(tree)]
    buffer = io.BytesIO()
    np.savez(buffer, *(np.asarray(leaf) for leaf in leaves))
    return buffer.getvalue()


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
