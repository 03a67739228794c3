"""Reverse: say a word of two letters backwards."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import Step
from forage.environments.limits import check_at_least

LETTERS = 2


class ReverseState(NamedTuple):
    prompt: Int[Array, " length"]
    answer: Int[Array, " length"]
    written: Int[Array, ""]  # tokens of the answer


class Reverse(Environment):
    """A language of two letters: a prompt is shown, and the answer, its reverse, is written one token a step.

    Each letter of the prompt is 0 or 1 with probability 1/2 each. The answer is as long as the prompt, and there is
    nothing to pay before its end, so that the whole answer has to be right.

    - Observation: `float32[4 * length]`, the prompt one-hot, then what is written of the answer one-hot; zeros stand
      for what is not written yet.
    - Action: the next token, 0 or 1.
    - Reward: at the last token 1 if the answer is the prompt reversed, else 0; before it, 0.
    - Terminated: after `length` steps. Never truncated.

    Best return: exactly 1, for every prompt. Tokens at random earn 2^-length in the mean.
    """

    ranges: ClassVar[Ranges] = {"length": Range(1)}

    length: int = equinox.field(default=2, static=True)  # tokens of a prompt, and of its answer

    def __check_init__(self):
        check_at_least(self, length=1)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0.0, 1.0, (2 * LETTERS * self.length,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(LETTERS)

    @property
    def horizon(self) -> int:
        return self.length

    def reset(self, key: Key[Array, ""]) -> tuple[ReverseState, Float[Array, " tokens"]]:
        prompt = jax.random.randint(key, (self.length,), 0, LETTERS)
        state = ReverseState(prompt, jnp.zeros_like(prompt), jnp.int32(0))
        return state, self._observe(state)

    def step(self, state: ReverseState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[ReverseState, Step]:
        answer = jnp.where(jnp.arange(self.length) == state.written, action, state.answer)
        new_state = ReverseState(state.prompt, answer, state.written + 1)
        terminated = new_state.written >= self.length
        right: Bool[Array, ""] = (answer == state.prompt[::-1]).all()
        reward = (terminated & right).astype(jnp.float32)
        return new_state, Step(self._observe(new_state), reward, terminated, jnp.zeros((), bool), {})

    def _observe(self, state: ReverseState) -> Float[Array, " tokens"]:
        there = jnp.arange(self.length) < state.written
        answer = jax.nn.one_hot(state.answer, LETTERS) * there[:, None]
        return jnp.concatenate([jax.nn.one_hot(state.prompt, LETTERS), answer]).reshape(-1)

    def render(self, state: ReverseState) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the prompt above and the answer below: dark for 0, bright for 1, grey for unwritten tokens."""
        written = np.where(np.arange(self.length) < int(state.written), np.asarray(state.answer) * 200 + 40, 128)
        rows = np.stack([np.asarray(state.prompt) * 200 + 40, written]).astype(np.uint8)
        picture = np.kron(rows, np.ones((24, 24), np.uint8))
        picture[::24], picture[:, ::24] = 0, 0
        return np.repeat(picture[..., None], 3, -1)
