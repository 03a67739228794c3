"""Memory chain: bits are shown at the start, and the agent must name one of them at the end."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import Step
from forage.environments import drawing
from forage.environments.limits import check_at_least


class MemoryChainState(NamedTuple):
    bits: Int[Array, " bit"]  # 0 or 1 each
    query: Int[Array, ""]  # which of them is asked for
    time: Int[Array, ""]  # steps taken


class MemoryChain(Environment):
    """Bits shown at the start, one of them to be named at the end.

    As in bsuite the first observation is shown twice, at reset and after the first step, and each later one a step
    late, so an episode has `memory_length + 1` steps and the bits must be kept for `memory_length - 1` of them.

    - Observation: `float32[2 + num_bits]`: `1 - t / memory_length`; the number of the queried bit, at
      t = memory_length - 1 only; each bit as -1 or 1, at t = 0 only. Here t is 0, 0, 1, 2, ..., memory_length.
    - Action: 0 or 1, which counts at the last step.
    - Reward: 1 at the last step for the value of the queried bit, else -1; 0 before.
    - Terminated: after `memory_length + 1` steps. Never truncated.

    Best return: 1 with memory; 0 on average without, unless `memory_length` is 1, as bits and question are then seen at
    once.

    Source: Osband et al. (2020), "Behaviour suite for reinforcement learning" (arXiv 1908.03568): `memory_len` has one
    bit and lengths 1 to 100, `memory_size` the length 2 and 1 to 40 bits.
    """

    ranges: ClassVar[Ranges] = {"memory_length": Range(1), "num_bits": Range(1)}

    memory_length: int = 10
    num_bits: int = equinox.field(default=1, static=True)

    def __check_init__(self):
        check_at_least(self, memory_length=1, num_bits=1)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        low = np.array([0, 0] + [-1] * self.num_bits, np.float32)
        high = np.array([1, self.num_bits - 1] + [1] * self.num_bits, np.float32)
        return gymnasium.spaces.Box(low, high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(2)

    @property
    def horizon(self) -> int:
        return self.memory_length + 1

    def reset(self, key: Key[Array, ""]) -> tuple[MemoryChainState, Float[Array, " observation"]]:
        bits_key, query_key = jax.random.split(key)
        bits = jax.random.bernoulli(bits_key, shape=(self.num_bits,)).astype(jnp.int32)
        query = jax.random.randint(query_key, (), 0, self.num_bits)
        state = MemoryChainState(bits, query, jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(
        self, state: MemoryChainState, action: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[MemoryChainState, Step]:
        new_state = state._replace(time=state.time + 1)
        terminated = new_state.time >= self.horizon
        right = jnp.where(action == state.bits[state.query], 1.0, -1.0)
        reward = jnp.where(terminated, right, 0.0).astype(jnp.float32)
        return new_state, Step(self._observe(new_state), reward, terminated, jnp.zeros((), bool), {})

    def _observe(self, state: MemoryChainState) -> Float[Array, " observation"]:
        time = jnp.clip(state.time - 1, 0, self.memory_length)
        query = jnp.where(time == self.memory_length - 1, state.query, 0)
        bits = jnp.where(time == 0, 2 * state.bits - 1, 0)
        head = jnp.stack([(self.memory_length - time) / self.memory_length, query])
        return jnp.concatenate([head, bits]).astype(jnp.float32)

    def render(self, state: MemoryChainState) -> UInt8[np.ndarray, "height width 3"]:
        bits, time, length = np.asarray(state.bits), int(state.time), int(self.memory_length)
        canvas = drawing.Canvas(400, 140)
        width = min(60.0, 380 / len(bits))
        left = 200 - width * len(bits) / 2
        for index, bit in enumerate(bits):
            colour = drawing.ORANGE if bit else drawing.BLUE
            if time > 1:  # remembered, no longer shown
                colour = drawing.mix(colour, drawing.PAPER, 0.7)
            x = left + index * width
            if index == int(state.query) and time >= length:
                canvas.rectangle((x, 20), (x + width, 84), drawing.INK, 4)
            canvas.rectangle((x + 3, 23), (x + width - 3, 81), colour, 4)
        canvas.line([(30, 112), (370, 112)], drawing.MIST, 6)
        canvas.circle((30 + 340 * min(time, length + 1) / (length + 1), 112), 8, drawing.INK)
        return canvas.array()
